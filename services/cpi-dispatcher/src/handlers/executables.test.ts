import { reasonOfFailed } from "@diskmesh/cpi/testing";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { OfferedCpi } from "../cpis/cpi-set.js";
import {
  answers,
  context,
  failsWith,
  NEW_DISK,
  recording,
  requestsOf,
  ScriptDispatcher,
  V2,
  V3,
} from "../testing/script-dispatcher.js";
import { TestDispatcher } from "../testing/test-dispatcher.js";

const newVm = {
  agentId: "a1",
  stemcellCid: "s1",
  cloudProperties: { size: "m1" },
  networks: { n: { type: "dynamic" } },
  diskCids: ["d1"],
  env: { bosh: { group: "g" } },
};

describe("CPI executables behind the dispatcher", () => {
  const bench = ScriptDispatcher.forEachTest();

  describe("requests", () => {
    it("contain method, arguments in the contract's order, version, context and properties", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", answers('"x-1"'), { properties: { user: "u", vm: "shadow" } });
      await bench.dispatcher.setCpis([cpi]);
      const at = context({ cpi: "a", stemcellApiVersion: 1 });
      const made = await bench.director.createVm({ ...newVm, context: at });
      expect(made).to.deep.equal({
        vmCid: "x-1",
        networks: newVm.networks,
        agentId: "a1",
        cpi: "a",
        usesRegistry: true,
        apiVersion: 2,
      });
      await bench.director.createDisk({ ...NEW_DISK, context: at });
      await bench.director.createDisk({ ...NEW_DISK, vmCid: "v1", context: at });
      await bench.director.deleteVm({ context: at, vmCid: "v1" });
      await bench.director.attachDisk({ context: at, vmCid: "v1", diskCid: "d1" });
      await bench.director.detachDisk({ context: at, vmCid: "v1", diskCid: "d1" });
      await bench.director.setVmMetadata({ context: at, vmCid: "v1", metadata: { a: 1 } });
      await bench.director.setDiskMetadata({ context: at, diskCid: "d1", metadata: { a: 1 } });
      await bench.director.resizeDisk({ context: at, diskCid: "d1", sizeMib: 9 });
      await bench.director.updateDisk({ context: at, diskCid: "d1", sizeMib: 9, cloudProperties: { type: "hdd" } });
      await bench.director.snapshotDisk({ context: at, diskCid: "d1", metadata: { a: 1 } });
      await bench.director.deleteSnapshot({ context: at, snapshotCid: "s1" });
      await bench.director.rebootVm({ context: at, vmCid: "v1" });
      await bench.director.deleteDisk({ context: at, diskCid: "d1" });
      await bench.director.deleteStemcell({ context: at, stemcellCid: "s1" });
      const [info, first, ...others] = requestsOf(cpi);
      expect(info).to.not.have.property("api_version");
      const ids = requestsOf(cpi).map((request) => (request.context as { request_id: string }).request_id);
      expect(new Set(ids).size).to.equal(ids.length, "an id for each call");
      for (const id of ids) expect(id).to.match(/^r1-[0-9a-f]{8}$/);
      expect(first).to.deep.equal({
        method: "create_vm",
        arguments: ["a1", "s1", { size: "m1" }, { n: { type: "dynamic" } }, ["d1"], { bosh: { group: "g" } }],
        api_version: 2,
        // Properties override the other keys, as with stock directors.
        context: { director_uuid: "d1", request_id: ids[1], vm: "shadow", user: "u" },
      });
      expect(others.map((request) => [request.method, request.arguments])).to.deep.equal([
        ["create_disk", [7, { type: "ssd" }, null]],
        ["create_disk", [7, { type: "ssd" }, "v1"]],
        ["delete_vm", ["v1"]],
        ["attach_disk", ["v1", "d1"]],
        ["detach_disk", ["v1", "d1"]],
        ["set_vm_metadata", ["v1", { a: 1 }]],
        ["set_disk_metadata", ["d1", { a: 1 }]],
        ["resize_disk", ["d1", 9]],
        ["update_disk", ["d1", 9, { type: "hdd" }]],
        ["snapshot_disk", ["d1", { a: 1 }]],
        ["delete_snapshot", ["s1"]],
        ["reboot_vm", ["v1"]],
        ["delete_disk", ["d1"]],
        ["delete_stemcell", ["s1"]],
      ]);
    });

    it("contain the beginning of the director's call id, by which a task's debug output finds them", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", answers("true"));
      await bench.dispatcher.setCpis([cpi]);
      await bench.director.hasVm({ context: context({ cpi: "a", callId: "1a2b3c4d-5e6f" }), vmCid: "v" });
      const [, request] = requestsOf(cpi);
      expect(request?.context)
        .to.have.property("request_id")
        .that.matches(/^r1-1a2b3c4d-[0-9a-f]{8}$/);
    });

    it("contain the stemcell's version, and 2 when there is none or it is unknown", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", answers("true"));
      await bench.dispatcher.setCpis([cpi]);
      await bench.director.deleteVm({ context: context({ cpi: "a", stemcellApiVersion: 3 }), vmCid: "v" });
      await bench.director.deleteVm({ context: context({ cpi: "a" }), vmCid: "v" });
      await bench.director.deleteVm({ context: context({ unknownId: true }), vmCid: "v" });
      const vms = requestsOf(cpi).map((request) => (request.context as { vm?: unknown }).vm);
      expect(vms.slice(1)).to.deep.equal([
        { stemcell: { api_version: 3 } },
        { stemcell: { api_version: 2 } },
        // has_vm, then delete_vm.
        { stemcell: { api_version: 2 } },
        { stemcell: { api_version: 2 } },
      ]);
    });

    it("run one process per operation: info is called once per config version", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", answers("true"));
      await bench.dispatcher.setCpis([cpi]);
      const has = (version: string) =>
        bench.director.hasVm({ context: context({ cpi: "a", cpiConfigVersion: version }), vmCid: "v" });
      await Promise.all(Array.from({ length: 8 }, () => has("v")));
      await bench.dispatcher.setCpis([cpi]);
      await has("v");
      const methods = () => requestsOf(cpi).map(({ method }) => method);
      expect(methods()).to.deep.equal(["info", ...Array(9).fill("has_vm")]);
      await bench.dispatcher.setCpis([cpi], "v2");
      await has("v2");
      expect(methods().slice(10)).to.deep.equal(["info", "has_vm"]);
    });
  });

  describe("versions", () => {
    it("v3, when the director prefers 2 -> api_version 2, and a hint", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", recording(V3, '"/dev/sdb"'));
      await bench.dispatcher.setCpis([cpi]);
      const at = context({ cpi: "a", preferredApiVersion: 2, stemcellApiVersion: 2 });
      const attached = await bench.director.attachDisk({ context: at, vmCid: "v", diskCid: "d" });
      expect(attached.diskHint).to.equal("/dev/sdb");
      expect(requestsOf(cpi).at(-1)?.api_version).to.equal(2);
    });

    it("without an info method -> v1; with a failing info -> UNAVAILABLE, nothing done, called again", async () => {
      const old = failsWith("InvalidCall")
        .replaceAll(V2, "null")
        .replace(
          '"error":null',
          '"error":{"type":"InvalidCall","message":"Method is not known, got info","ok_to_retry":false}',
        );
      const broken = old.replace("InvalidCall", "Bosh::Clouds::CloudError");
      const cpis = [bench.dispatcher.scriptCpi("old", old), bench.dispatcher.scriptCpi("broken", broken)];
      await bench.dispatcher.setCpis(cpis);
      expect((await bench.director.info({ context: context({ cpi: "old" }) })).apiVersion).to.equal(1);
      const asking = bench.director.hasVm({ context: context({ cpi: "broken" }), vmCid: "v" });
      expect(await asking.catch((error) => [error.name, error.outcome])).to.deep.equal([
        "UnavailableError",
        "not_done",
      ]);
      bench.dispatcher.scriptCpi("broken", answers("true"));
      expect((await bench.director.hasVm({ context: context({ cpi: "broken" }), vmCid: "v" })).exists).to.equal(true);
    });

    it("asked for a host of the fleet -> has none, and is not started", async () => {
      const cpi = bench.dispatcher.scriptCpi("a", recording("true"));
      await bench.dispatcher.setCpis([cpi]);
      const named = { context: context({ cpi: "a" }), vmCid: "host/h1" };
      expect(await bench.director.hasVm(named)).to.deep.equal({ exists: false, az: "" });
      for (const call of [
        bench.director.detachDisk({ ...named, diskCid: "d" }),
        bench.director.createDisk({ ...named, sizeMib: 1 }),
      ])
        expect(await reasonOfFailed(call)).to.equal("VM_NOT_FOUND");
      expect(requestsOf(cpi)).to.deep.equal([]);
    });

    const info = (then: string) => `read -r request; printf '%s\\n' "$request" >> "$0.requests"\n${then}`;
    for (const [what, script, says] of [
      ["no answer", info("exit 1"), "exit code 1"],
      ["a malformed description", recording('{"api_version":"two"}'), "'api_version' of 'info' is not a whole number"],
    ] as const)
      it(`with an info of ${what} -> CPI_UNUSABLE, which is not worth a repetition; mended, it is asked again`, async () => {
        const broken = bench.dispatcher.scriptCpi("a", script);
        await bench.dispatcher.setCpis([broken]);
        const has = () => bench.director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" });
        const error = await rejection(has());
        expect(await reasonOfFailed(Promise.reject(error))).to.equal("CPI_UNUSABLE");
        expect(error).to.include({ outcome: "not_done", retryable: false });
        expect(error.message).to.include(says).and.to.include("(CPI 'a', method 'info')");
        expect(requestsOf(broken)).to.have.length(1);
        bench.dispatcher.scriptCpi("a", answers("true"));
        expect((await has()).exists).to.equal(true);
      });

    it("with a hanging info -> its own timeout, once for all callers", async () => {
      const hasty = new TestDispatcher(bench.certificates, [new OfferedCpi("memory", "memory", bench.own)], {
        limits: { infoTimeoutMs: 4_000 },
      });
      await hasty.start();
      try {
        const hanging = hasty.scriptCpi("a", info("sleep 60"));
        await hasty.setCpis([hanging]);
        const director = hasty.client("director");
        const has = () => director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" });
        for (const error of await Promise.all([rejection(has()), rejection(has()), rejection(has())])) {
          expect(error).to.include({ name: "UnavailableError", outcome: "not_done" });
          expect(error.message).to.include("longer than 4000 ms");
        }
        expect(requestsOf(hanging)).to.have.length(1);
      } finally {
        await hasty.close();
      }
    });

    it("v2 and v3 return the networks that create_vm settled", async () => {
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("a", answers('["vm-1",{"n":{"ip":"10.0.0.9"}}]'))]);
      const made = await bench.director.createVm({ ...newVm, context: context({ cpi: "a", stemcellApiVersion: 3 }) });
      expect(made).to.include({ vmCid: "vm-1", usesRegistry: false, apiVersion: 2 });
      expect(made.networks).to.deep.equal({ n: { ip: "10.0.0.9" } });
    });
  });

  describe("errors", () => {
    it("have the CPI's type, and whether to retry", async () => {
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("a", failsWith("Bosh::Clouds::NoDiskSpace"))]);
      const error = await rejection(bench.director.getDisks({ context: context({ cpi: "a" }), vmCid: "v" }));
      expect(error).to.include({ reason: "NO_DISK_SPACE", retryAfterMs: 1_000 });
      expect(error.about).to.include({ cpi: "a", cpi_error_type: "Bosh::Clouds::NoDiskSpace", ok_to_retry: "true" });
    });
  });
});
