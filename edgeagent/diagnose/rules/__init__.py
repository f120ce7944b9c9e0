"""One module for each rule, found by its being here. Each has a tuple ``RULES``."""
