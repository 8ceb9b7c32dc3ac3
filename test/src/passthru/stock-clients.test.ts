import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { pythonOf } from "../python-of.js";
import { FIRST_CALLS, REFUSED_CALLS } from "./first-calls.js";
import { NODE } from "./rows.js";
import { faultOf, PassthruScene, SAMPLE_NODES } from "./scene.js";

const run = promisify(execFile);

describe("vendor passthru, the stock clients", () => {
  const scene = PassthruScene.forAllTests(SAMPLE_NODES);

  describe("requests as openstacksdk, gophercloud, Ansible and baremetal send them first", () => {
    for (const [path, answer] of FIRST_CALLS)
      it(`GET ${path}`, async () => {
        const { status, body } = await scene.send("GET", path);
        expect(status, body).to.equal(200);
        expect(JSON.parse(body.replaceAll(scene.endpoint, ""))).to.deep.equal(answer);
      });

    for (const [verb, path, status, faultstring] of REFUSED_CALLS)
      it(`${verb} ${path} -> ${status}`, async () => {
        const answer = await scene.send(verb, path);
        expect(answer.status, answer.body).to.equal(status);
        expect(faultOf(answer)).to.deep.equal({ faultcode: "Client", faultstring, debuginfo: null });
      });
  });

  describe("baremetal (python-ironicclient)", () => {
    before(function () {
      skipWithout(this, "baremetal");
    });

    it("lists nodes, in pages too", async () => {
      const { stdout, stderr } = await scene.baremetal("node list -f json");
      expect(stdout, stderr).not.to.equal("");
      expect(JSON.parse(stdout)).to.deep.equal(
        ["host-1", "host-2"].map((uuid) => ({
          uuid,
          name: uuid,
          instance_uuid: null,
          power_state: null,
          provision_state: null,
          maintenance: false,
        })),
      );
      const paged = await scene.baremetal("node list -f value -c Name --limit 1 --marker host-1");
      expect(paged.stdout).to.equal("host-2\n");
    });

    it("filters, sorts and validates nodes, and lists the drivers' properties and no ports", async () => {
      for (const [command, printed] of [
        ["node list -f value -c UUID --long", "host-1\nhost-2"],
        ["node list -f value -c UUID --driver sample --sort name:desc", "host-2\nhost-1"],
        ["node list -f value -c UUID --driver other", ""],
        ["node list -f value -c UUID --maintenance", ""],
        ["node list -f value -c UUID --no-maintenance", "host-1\nhost-2"],
        ["node list -f value --fields uuid driver", "host-1 None\nhost-2 None"],
        ["driver property list sample", ""],
        ["port list", ""],
      ] as const) {
        const { stdout, stderr } = await scene.baremetal(command);
        expect(stdout.trim(), `${command}: ${stderr}`).to.equal(printed);
      }
      const { stdout } = await scene.baremetal(`node validate ${NODE} -f json`);
      expect(JSON.parse(stdout)).to.deep.include({ Interface: "vendor", Result: true, Reason: "" });
    });

    it("is told that a node cannot be deleted", async () => {
      const { stderr } = await scene.baremetal(`node delete ${NODE}`);
      expect(stderr).to.contain("HTTP 405");
    });

    /**
     * Expects that a client repeats a call that is refused at first. The status is in the log once for each attempt.
     */
    async function refusedAtFirst(status: number, why: string, heal: () => Promise<unknown>): Promise<void> {
      const call = `node passthru call ${NODE} turn --arg at=1`;
      const refused = await scene.baremetal(`--max-retries 0 ${call}`);
      expect(refused.stderr).to.contain(why).and.not.to.contain("TypeError");
      const timesRefused = (): number => scene.mesh.process("director").logs.split(`"status":${status}`).length;
      const before = timesRefused();
      const calling = scene.baremetal(`--max-retries 100 --retry-interval 1 ${call}`);
      await eventually(() => expect(timesRefused()).to.be.above(before));
      await heal();
      const { stdout, stderr } = await calling;
      expect(stdout, stderr).to.contain("atOnce");
    }

    it("retries after 409 of a locked node until it is free", async () => {
      const taskId = await scene.sleeping(3_600_000);
      await refusedAtFirst(409, "Node host-1 is locked by task", () => scene.mesh.clients.tasks.cancelTask({ taskId }));
    });

    it("retries after 503 of a node whose agent is away until it is back", async () => {
      const agent = scene.mesh.process(NODE);
      await agent.kill();
      await refusedAtFirst(503, "no process listens there", () => agent.start());
    });

    it("reports 429 after too many failed logins", async () => {
      const wrong = { OS_USERNAME: "nobody", OS_PASSWORD: "wrong" };
      await eventually(async () => {
        const { headers } = await scene.http("admin").send("GET", "/v1/nodes", { login: "nobody:wrong" });
        expect(Number(headers["retry-after"])).to.be.above(7);
      });
      const { stderr } = await scene.baremetal("driver list", wrong);
      expect(stderr).to.contain("too many logins").and.not.to.contain("TypeError");
    });
  });

  describe("openstacksdk", () => {
    let python: string;
    before(function () {
      skipWithout(this, "openstack-inventory");
      python = pythonOf("openstack-inventory");
    });

    /** Runs a Python script, and returns its variable `answer`. */
    async function sdk(script: string): Promise<unknown> {
      const connect = `
import json, openstack
auth = dict(username="admin", password="pw-admin", endpoint="${scene.endpoint}")
baremetal = openstack.connect(auth_type="http_basic", auth=auth, cacert="${scene.caFile}", baremetal_endpoint_override="${scene.endpoint}").baremetal
`;
      const { stdout } = await run(python, ["-c", `${connect}${script}\nprint(json.dumps(answer))`], {
        env: { PATH: process.env.PATH, HOME: scene.mesh.folder },
      });
      return JSON.parse(stdout);
    }

    it("connects, and lists nodes and drivers", async () => {
      expect(
        await sdk("answer = [[n.id for n in baremetal.nodes()], [d.name for d in baremetal.drivers()]]"),
      ).to.deep.equal([["host-1", "host-2"], ["sample"]]);
    });

    it("finds and filters nodes, as Ansible's baremetal_node_info does, and reads what nodes do not have", async () => {
      const script = `
from openstack.exceptions import HttpException
def status(call):
  try:
    call()
  except HttpException as refused:
    return refused.status_code
names = lambda items: [item.name for item in items]
answer = [
  names(baremetal.nodes(details=True)),
  names(baremetal.nodes(driver="sample", limit=1)),
  names(baremetal.nodes(is_maintenance=True)),
  names(baremetal.nodes(fields=["name"])),
  baremetal.find_node("host-1").name,
  baremetal.find_node("nobody"),
  baremetal.validate_node("host-1", required=["vendor"])["power"].result,
  names(baremetal.ports()) + names(baremetal.ports(details=True)),
  status(lambda: baremetal.delete_node("host-1")),
  status(lambda: baremetal.set_node_maintenance("host-1")),
]`;
      const both = ["host-1", "host-2"];
      expect(await sdk(script)).to.deep.equal([both, both, [], both, "host-1", null, null, [], 405, 405]);
    });

    it("lists and calls methods of nodes and drivers", async () => {
      const script = `
answer = [
  baremetal.list_node_vendor_passthru("host-1")["third_method_sync"]["http_methods"],
  baremetal.call_node_vendor_passthru("host-1", "POST", "third_method_sync", {"bar": "meow"}).json(),
  baremetal.call_node_vendor_passthru("host-1", "POST", "second_method", {"bar": "kazoo"}).status_code,
  "d_echo" in baremetal.list_driver_vendor_passthru("sample"),
  baremetal.call_driver_vendor_passthru("sample", "PUT", "d_echo", {"a": 1}).json(),
]`;
      expect(await sdk(script)).to.deep.equal([["POST"], true, 202, true, { http_method: "PUT", kw: { a: 1 } }]);
    });
  });
});
