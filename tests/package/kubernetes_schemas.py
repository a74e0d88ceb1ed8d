#!/usr/bin/env python3
"""kubernetes_schemas.py VERSION FILE...: check each object of the files against the schemas of this Kubernetes, with no key that
these do not know. The schemas are those of kubernetes-validate (made of Kubernetes' own OpenAPI). A JobSet is checked against
the models of kubeflow-trainer-api (made of JobSet's CRD), and its Jobs against Kubernetes' schema. Runs in kubernetes-venv."""
import sys

import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
from kubernetes_validate import ValidationError, validate


def check_job_set(job_set: dict, version: str) -> None:
    known = JobsetV1alpha2JobSet.from_dict(job_set).to_dict()
    for job in job_set["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, "spec": spec}, version, strict=True)
    compare(without_templates(job_set), without_templates(known), "JobSet")


def without_templates(job_set: dict) -> dict:
    jobs = [{key: value for key, value in job.items() if key != "template"} for job in job_set["spec"]["replicatedJobs"]]
    return {**job_set, "spec": {**job_set["spec"], "replicatedJobs": jobs}}


def compare(given, known, path: str) -> None:
    """The models drop keys that they do not know."""
    if isinstance(given, dict):
        for key, value in given.items():
            if key not in (known or {}):
                raise ValueError(f"{path} has the unknown key {key}")
            compare(value, known[key], f"{path}.{key}")
    elif isinstance(given, list):
        for place, value in enumerate(given):
            compare(value, known[place], f"{path}[{place}]")
    elif given != known:
        raise ValueError(f"{path} is {given!r}, and becomes {known!r}")


def main() -> int:
    version, *paths = sys.argv[1:]
    wrong = checked = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            objects = list(yaml.safe_load_all(file))
        for one in objects:
            try:
                if one["kind"] == "JobSet":
                    check_job_set(one, version)
                else:
                    validate(one, version, strict=True)
                checked += 1
            except (ValidationError, ValueError) as error:
                where = ".".join(str(part) for part in getattr(error, "path", []))
                print(f"{path}: {one['kind']} {where}: {getattr(error, 'message', error)}")
                wrong += 1
    print(f"{checked} objects are right for Kubernetes {version}")
    return 1 if wrong or not checked else 0


sys.exit(main())
