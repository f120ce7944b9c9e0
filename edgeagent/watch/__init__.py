"""What is watched for people alone: how pods fare beside each other, and how the board itself is.

Nothing in here leads to a decision, and none waits for it. It rests while the board is in danger.
"""
