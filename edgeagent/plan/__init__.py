"""What should be done: the plan of one decision, and its explanation. Pure: facts and state in, values out."""
