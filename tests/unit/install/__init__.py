"""Installing and uninstalling, below a root of the tests' own."""
