"""Do these models fit on this board together, beside what is bound there now? The answer to ``--would-fit``."""
