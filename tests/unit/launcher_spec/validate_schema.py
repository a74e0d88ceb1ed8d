"""Validate specs, given as JSON, against the schema. Usage: validate_schema.py SCHEMA CASES

CASES is a JSON list of {"name", "valid", "instance"}. Prints each case that the schema judges differently, and exits with 1 if any.
"""
import json
import sys

import jsonschema


def main():
    with open(sys.argv[1]) as file:
        schema = json.load(file)
    with open(sys.argv[2]) as file:
        cases = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    wrong = 0
    for case in cases:
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(case["instance"])]
        if bool(errors) == case["valid"]:
            wrong += 1
            print(f"{case['name']}: expected {'valid' if case['valid'] else 'wrong'}, found", errors or "no error")
    print(f"{len(cases)} cases, {wrong} judged otherwise")
    return 1 if wrong or not cases else 0


sys.exit(main())
