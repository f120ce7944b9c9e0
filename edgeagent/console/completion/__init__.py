"""Completion for shells, made from the argument parser, so that it knows no option less and none more."""
