import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { leaveToVerify, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { pythonOf } from "../python-of.js";
import { repositoryFolder } from "../repository-folder.js";
import { EXCLUDED_FUNCTIONAL_TESTS } from "./functional-tests.js";
import { PassthruScene, SAMPLE_NODES } from "./scene.js";

const run = promisify(execFile);

const SOURCES = join(repositoryFolder, "test/src/foreign-clients/openstack");
/** Generous, because Ansible starts a Python for each task. */
const RUN_TIMEOUT_MS = 5 * 60_000;
/** The driver that the functional tests expect of every Ironic. */
const FAKE_HARDWARE = `
import { Driver } from "@diskmesh/driver";
export default class extends Driver {
  static driverName = "fake-hardware";
  static description = "for openstacksdk's tests";
}
`;

describe("vendor passthru, the stock clients: OpenStack's", () => {
  before(function () {
    leaveToVerify(this);
  });
  const fakeHardware = join(temporaryFolder(), "fake-hardware.mjs");
  writeFileSync(fakeHardware, FAKE_HARDWARE);
  const scene = PassthruScene.forAllTests({
    ...SAMPLE_NODES,
    directorDrivers: [...SAMPLE_NODES.directorDrivers, { package: fakeHardware }],
  });

  it("Ansible's openstack.cloud lists nodes and is refused their changes, and Ansible calls methods", async function () {
    this.timeout(RUN_TIMEOUT_MS);
    skipWithout(this, "ansible-playbook");
    const python = pythonOf("ansible-playbook");
    await run(python, ["-c", "import ansible_collections.openstack.cloud, openstack.version"]).catch((error) =>
      skipBecause(this, `Ansible has no collection openstack.cloud, or no openstacksdk for it: ${messageOf(error)}`),
    );
    const folder = temporaryFolder();
    const answers = join(folder, "answers.json");
    const variables = {
      endpoint: scene.endpoint,
      authority: scene.caFile,
      answers,
      ansible_python_interpreter: python,
    };
    const args = ["-i", "localhost,", "-e", JSON.stringify(variables), join(SOURCES, "nodes.yml")];
    const { stdout } = await run("ansible-playbook", args, {
      env: { PATH: process.env.PATH, HOME: folder, LC_ALL: "C.UTF-8" },
      timeout: RUN_TIMEOUT_MS,
    }).catch((error) => error);
    expect(existsSync(answers), stdout).to.equal(true);
    expect(JSON.parse(readFileSync(answers, "utf8"))).to.deep.equal({
      all: ["host-1", "host-2"],
      one: ["host-1"],
      unknown: [],
      by_mac: [],
      ports: [],
      absent: false,
      refused: ["nodes are hosts of diskmesh, which clients of Ironic cannot change"],
      power: "Node has unknown power state None",
      methods: ["POST"],
      sync: true,
      task: "done",
    });
  });

  it("openstacksdk's functional tests of bare metal pass, but those of what hosts are not", async function () {
    this.timeout(RUN_TIMEOUT_MS);
    skipWithout(this, "openstack-inventory");
    const python = pythonOf("openstack-inventory");
    await run(python, ["-c", "import openstack.tests.functional.baremetal, oslotest, testtools"]).catch((error) =>
      skipBecause(this, `openstacksdk comes without its tests, or without oslotest or testtools: ${messageOf(error)}`),
    );
    const cloud = {
      auth_type: "http_basic",
      auth: { username: "admin", password: "pw-admin", endpoint: scene.endpoint },
      cacert: scene.caFile,
      baremetal_endpoint_override: scene.endpoint,
      has_compute: false,
      has_image: false,
    };
    const config = join(temporaryFolder(), "clouds.yaml");
    writeFileSync(config, JSON.stringify({ clouds: { diskmesh: cloud } }));
    const clouds = ["OS_CLOUD", ...["SYSTEM_ADMIN_", "DEMO_", "OPERATOR_"].map((kind) => `OPENSTACKSDK_${kind}CLOUD`)];
    const env = {
      ...Object.fromEntries([...clouds, "OPENSTACKSDK_DEMO_CLOUD_ALT"].map((name) => [name, "diskmesh"])),
      ...{ PATH: process.env.PATH, HOME: dirname(config), OS_CLIENT_CONFIG_FILE: config },
      ...{ OS_TEST_TIMEOUT: "60", OS_LOG_CAPTURE: "1" },
    };
    const { stdout } = await run(python, [join(SOURCES, "functional.py")], { env, timeout: RUN_TIMEOUT_MS });
    const outcomes = new Map(Object.entries(JSON.parse(stdout) as Record<string, string>));
    const others = [...outcomes].filter(([, outcome]) => outcome !== "ok");
    const excluded = EXCLUDED_FUNCTIONAL_TESTS.flatMap(({ classes }) =>
      Object.entries(classes).flatMap(([name, tests]) => tests.split(" ").map((test) => `${name}.test_${test}`)),
    );
    expect(others.filter(([test]) => !excluded.includes(test)).map(String)).to.deep.equal([]);
    // A test that passes is no longer excluded.
    expect(excluded.filter((test) => (outcomes.get(test) ?? "ok") === "ok")).to.deep.equal([]);
  });
});
