"""The command line: click over the SDK's client."""
