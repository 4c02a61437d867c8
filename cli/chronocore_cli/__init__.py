"""The command line of chronocore: it parses, calls the library and prints."""
