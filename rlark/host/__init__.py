"""The one room for the operating system: time, processes, ports, devices and Ray's head."""
