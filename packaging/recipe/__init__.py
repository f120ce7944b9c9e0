"""How the packages are made: what ``build.py`` and ``lock.py`` are composed of."""
