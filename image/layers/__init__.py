"""How the container image is made: Debian packages, wheels and the agent, a layer each, packed by buildah."""
