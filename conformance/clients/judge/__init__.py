"""The conformance run for clients: a scripted daemon that judges what a client asks and reports."""
