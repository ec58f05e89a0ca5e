"""The notebook SDK: a client of the API over HTTP."""
