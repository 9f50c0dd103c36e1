#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# dependencies = ["xmlschema"]
# ///
"""Holds JUnit files against the schema of Jenkins' xUnit plugin (tests/golden/junit-10.xsd, MIT).

    python3 scripts/validate_junit.py FILE...
"""
import pathlib
import sys

import xmlschema

SCHEMA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "junit-10.xsd"


def main(files):
    if not files:
        sys.exit("name at least one file")
    schema = xmlschema.XMLSchema(str(SCHEMA))
    for file in files:
        try:
            schema.validate(file)
        except xmlschema.XMLSchemaException as error:
            sys.exit(f"{file}: {error.reason if hasattr(error, 'reason') else error}")
        print(f"{file}: valid")


if __name__ == "__main__":
    main(sys.argv[1:])
