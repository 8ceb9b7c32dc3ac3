"""Runs openstacksdk's own functional tests of bare metal, and prints the outcome of each as JSON: "ok", or why not.
Nodes of diskmesh are hosts that are there before: where a test creates a node, it gets host-1."""

import io
import json
import os
import sys
import unittest

import openstack
from openstack.tests.functional.baremetal.v1 import base


def create_node(test, **_kwargs):
    test.node_id = "host-1"
    return test.operator_cloud.baremetal.get_node(test.node_id)


class Outcomes(unittest.TextTestResult):
    outcomes = {}

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "ok")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, str(err[1]).strip().splitlines()[-1])

    addFailure = addError

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, f"skipped: {reason}")

    def note(self, test, outcome):
        self.outcomes[test.id().removeprefix(f"{base.__package__}.")] = outcome


base.BaseBaremetalTest.create_node = create_node
folder = os.path.dirname(base.__file__)
top = os.path.dirname(os.path.dirname(openstack.__file__))
suite = unittest.defaultTestLoader.discover(folder, top_level_dir=top)
unittest.TextTestRunner(stream=io.StringIO(), resultclass=Outcomes).run(suite)
json.dump(Outcomes.outcomes, sys.stdout)
