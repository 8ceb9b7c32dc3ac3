import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CpiConfig } from "@diskmesh/api/cpi";
import { eventually, type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { reasonOfFailed } from "../contract/cpi-contract.js";
import { MemoryCpi } from "../contract/memory-cpi.js";
import { OfferedCpi } from "../cpi-set.js";
import { processesOf } from "../testing/processes.js";
import { type CpiClient, contextOf, TestDispatcher } from "../testing/test-dispatcher.js";

/** Remembers its requests; answers info as told, and then whatever its answer file says. */
const recording = (info: string, otherwise = "null") => `
read -r request
printf '%s\\n' "$request" >> "$0.requests"
case "$request" in
'{"method":"info"'*) echo '{"result":${info},"error":null,"log":""}' ;;
*) echo '{"result":${otherwise},"error":null,"log":"said"}' ;;
esac`;

const V1 = "{}";
const V2 = '{"api_version":2,"stemcell_formats":["raw"]}';
const V3 = '{"api_version":3,"stemcell_formats":["ova"]}';
const answers = (result: string) => recording(V2, result);
const failsWith = (type: string) => `
read -r request
case "$request" in
'{"method":"info"'*) echo '{"result":${V2},"error":null,"log":""}' ;;
*) echo '{"result":null,"error":{"type":"${type}","message":"m","ok_to_retry":true},"log":""}' ;;
esac`;

describe("CPI executables behind the dispatcher", function () {
  this.timeout(30_000);
  let certificates: TestCertificates;
  let dispatcher: TestDispatcher;
  let director: CpiClient;
  let own: MemoryCpi;

  before(async () => {
    certificates = await testCertificates();
  });

  beforeEach(async () => {
    own = new MemoryCpi();
    dispatcher = await new TestDispatcher(certificates, [new OfferedCpi("memory", "memory", own)], {
      maxConcurrentCalls: 4,
      callTimeoutMs: 5_000,
      createStemcellTimeoutMs: 20_000,
    }).start();
    director = dispatcher.client("director");
  });

  afterEach(async () => {
    await dispatcher.close();
    expect(await processesOf(dispatcher.runFolder), "processes are left").to.deep.equal([]);
  });

  const context = (more: object = {}) => contextOf(1, { cpiConfigVersion: "v", ...more });
  const requestsOf = (
    cpi: CpiConfig,
  ): { method: string; arguments: unknown[]; api_version?: number; context: object }[] =>
    existsSync(`${cpi.execPath}.requests`)
      ? readFileSync(`${cpi.execPath}.requests`, "utf8")
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line))
      : [];
  const newVm = {
    agentId: "a1",
    stemcellCid: "s1",
    cloudProperties: { size: "m1" },
    networks: { n: { type: "dynamic" } },
    diskCids: ["d1"],
    env: { bosh: { group: "g" } },
    az: "",
  };
  const newDisk = { sizeMib: 7, cloudProperties: { type: "ssd" }, vmCid: "", az: "", token: "" };

  describe("requests", () => {
    it("carry method, arguments in the contract's order, version, context and properties", async () => {
      const cpi = dispatcher.scriptCpi("a", answers('"x-1"'), { properties: { user: "u", vm: "shadow" } });
      await dispatcher.setCpis([cpi]);
      const at = context({ cpi: "a", stemcellApiVersion: 1 });
      const made = await director.createVm({ ...newVm, context: at });
      expect(made).to.deep.equal({
        vmCid: "x-1",
        networks: newVm.networks,
        agentId: "a1",
        cpi: "a",
        usesRegistry: true,
        apiVersion: 2,
      });
      await director.createDisk({ ...newDisk, context: at });
      await director.createDisk({ ...newDisk, vmCid: "v1", context: at });
      await director.deleteVm({ context: at, vmCid: "v1" });
      await director.attachDisk({ context: at, vmCid: "v1", diskCid: "d1" });
      await director.detachDisk({ context: at, vmCid: "v1", diskCid: "d1" });
      await director.setVmMetadata({ context: at, vmCid: "v1", metadata: { a: 1 } });
      await director.setDiskMetadata({ context: at, diskCid: "d1", metadata: { a: 1 } });
      await director.resizeDisk({ context: at, diskCid: "d1", sizeMib: 9 });
      await director.updateDisk({ context: at, diskCid: "d1", sizeMib: 9, cloudProperties: { type: "hdd" } });
      await director.snapshotDisk({ context: at, diskCid: "d1", metadata: { a: 1 } });
      await director.deleteSnapshot({ context: at, snapshotCid: "s1" });
      await director.rebootVm({ context: at, vmCid: "v1" });
      await director.deleteDisk({ context: at, diskCid: "d1" });
      await director.deleteStemcell({ context: at, stemcellCid: "s1" });
      const [info, first, ...others] = requestsOf(cpi);
      expect(info).to.not.have.property("api_version");
      expect(first).to.deep.equal({
        method: "create_vm",
        arguments: ["a1", "s1", { size: "m1" }, { n: { type: "dynamic" } }, ["d1"], { bosh: { group: "g" } }],
        api_version: 2,
        // Properties come last and win, as with stock directors.
        context: { director_uuid: "d1", request_id: "r1", vm: "shadow", user: "u" },
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

    it("name the stemcell's version when it is known, and 2 for what nobody knows", async () => {
      const cpi = dispatcher.scriptCpi("a", answers("null"));
      await dispatcher.setCpis([cpi]);
      await director.deleteVm({ context: context({ cpi: "a", stemcellApiVersion: 3 }), vmCid: "v" });
      await director.deleteVm({ context: context({ cpi: "a" }), vmCid: "v" });
      await director.deleteVm({ context: context({ unknownId: true }), vmCid: "v" });
      const vms = requestsOf(cpi).map((request) => (request.context as { vm?: unknown }).vm);
      expect(vms.slice(1)).to.deep.equal([
        { stemcell: { api_version: 3 } },
        undefined,
        { stemcell: { api_version: 2 } },
      ]);
    });

    it("are one process an operation: info is asked once for a version of the config", async () => {
      const cpi = dispatcher.scriptCpi("a", answers("true"));
      await dispatcher.setCpis([cpi]);
      const has = (version: string) =>
        director.hasVm({ context: context({ cpi: "a", cpiConfigVersion: version }), vmCid: "v" });
      await Promise.all(Array.from({ length: 8 }, () => has("v")));
      await dispatcher.setCpis([cpi]);
      await has("v");
      const methods = () => requestsOf(cpi).map(({ method }) => method);
      expect(methods()).to.deep.equal(["info", ...Array(9).fill("has_vm")]);
      await dispatcher.setCpis([cpi], "v2");
      await has("v2");
      expect(methods().slice(10)).to.deep.equal(["info", "has_vm"]);
    });
  });

  describe("versions", () => {
    const cases: [what: string, info: string, preferred: number, stemcell: number, version: number, hint: unknown][] = [
      ["v1", V1, 0, 3, 1, undefined],
      ["v2", V2, 0, 3, 2, "/dev/sdb"],
      ["v3", V3, 0, 3, 3, "/dev/sdb"],
      ["v3, when the director prefers 2", V3, 2, 3, 2, "/dev/sdb"],
      ["v2 with an old stemcell", V2, 0, 1, 2, undefined],
      ["newer than us", '{"api_version":7}', 0, 3, 3, "/dev/sdb"],
    ];
    for (const [what, info, preferredApiVersion, stemcellApiVersion, version, hint] of cases)
      it(`${what} -> api_version ${version}, ${hint === undefined ? "no hint" : "a hint"}`, async () => {
        const cpi = dispatcher.scriptCpi("a", recording(info, '"/dev/sdb"'));
        await dispatcher.setCpis([cpi]);
        const at = context({ cpi: "a", preferredApiVersion, stemcellApiVersion });
        expect((await director.attachDisk({ context: at, vmCid: "v", diskCid: "d" })).diskHint).to.equal(hint);
        expect(requestsOf(cpi).at(-1)?.api_version).to.equal(version);
      });

    it("without an info method -> v1; with one that fails -> UNAVAILABLE, nothing done, asked again", async () => {
      const old = failsWith("InvalidCall")
        .replaceAll(V2, "null")
        .replace(
          '"error":null',
          '"error":{"type":"InvalidCall","message":"Method is not known, got info","ok_to_retry":false}',
        );
      const broken = old.replace("InvalidCall", "Bosh::Clouds::CloudError");
      const cpis = [dispatcher.scriptCpi("old", old), dispatcher.scriptCpi("broken", broken)];
      await dispatcher.setCpis(cpis);
      expect((await director.info({ context: context({ cpi: "old" }) })).apiVersion).to.equal(1);
      const asking = director.hasVm({ context: context({ cpi: "broken" }), vmCid: "v" });
      expect(await asking.catch((error) => [error.name, error.outcome])).to.deep.equal([
        "UnavailableError",
        "not_done",
      ]);
      dispatcher.scriptCpi("broken", answers("true"));
      expect((await director.hasVm({ context: context({ cpi: "broken" }), vmCid: "v" })).exists).to.equal(true);
    });

    it("v2 and v3 keep the networks that create_vm settled", async () => {
      await dispatcher.setCpis([dispatcher.scriptCpi("a", answers('["vm-1",{"n":{"ip":"10.0.0.9"}}]'))]);
      const made = await director.createVm({ ...newVm, context: context({ cpi: "a", stemcellApiVersion: 3 }) });
      expect(made).to.include({ vmCid: "vm-1", usesRegistry: false, apiVersion: 2 });
      expect(made.networks).to.deep.equal({ n: { ip: "10.0.0.9" } });
    });

    it("v2 must give a hint; numbers inside become strings", async () => {
      await dispatcher.setCpis([
        dispatcher.scriptCpi("none", answers("null")),
        dispatcher.scriptCpi("numbers", answers('{"lun":3,"iscsi_settings":{"id":7}}')),
      ]);
      const attach = (cpi: string) =>
        director.attachDisk({ context: context({ cpi, stemcellApiVersion: 2 }), vmCid: "v", diskCid: "d" });
      expect(await reasonOfFailed(attach("none"))).to.equal("INVALID_STATE");
      expect((await attach("numbers")).diskHint).to.deep.equal({ lun: "3", iscsi_settings: { id: "7" } });
    });
  });

  describe("errors", () => {
    for (const [type, reason] of [
      ["Bosh::Clouds::VMNotFound", "VM_NOT_FOUND"],
      ["Bosh::Clouds::DiskNotFound", "DISK_NOT_FOUND"],
      ["Bosh::Clouds::DiskNotAttached", "DISK_NOT_ATTACHED"],
      ["Bosh::Clouds::NoDiskSpace", "NO_DISK_SPACE"],
      ["Bosh::Clouds::VMCreationFailed", "VM_CREATION_FAILED"],
      ["Bosh::Clouds::NetworkNotFound", "NETWORK_NOT_FOUND"],
      ["Bosh::Clouds::NotImplemented", "NOT_IMPLEMENTED"],
      ["Bosh::Clouds::NotSupported", "NOT_SUPPORTED"],
      ["Bosh::Clouds::CloudError", "CPI_FAILED"],
      ["Anything", "CPI_FAILED"],
    ] as const)
      it(`${type} -> ${reason}, with its type and whether to try again`, async () => {
        await dispatcher.setCpis([dispatcher.scriptCpi("a", failsWith(type))]);
        const error = await director.getDisks({ context: context({ cpi: "a" }), vmCid: "v" }).catch((thrown) => thrown);
        expect(await reasonOfFailed(Promise.reject(error))).to.equal(reason);
        const retriable = /NoDiskSpace|DiskNot|VMCreationFailed/.test(type);
        expect(error.about).to.include({ cpi: "a", cpi_error_type: type, ok_to_retry: String(retriable) });
        expect(error.retryAfterMs).to.equal(retriable ? 1_000 : undefined);
      });

    for (const [what, answer] of [
      ["garbage", "echo garbage"],
      ["nothing", "exit 1"],
      ["the wrong shape", `echo '{"result":"yes","error":null,"log":""}'`],
      ["too much", "yes | head -c 2000000"],
    ] as const)
      it(`an answer that is ${what} -> an error that says so, and whether anything was done is unknown`, async () => {
        const script = `read -r request\ncase "$request" in '{"method":"info"'*) echo '{"result":${V2},"error":null,"log":""}' ;; *) ${answer} ;; esac`;
        await dispatcher.setCpis([dispatcher.scriptCpi("a", script)]);
        const error = await director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" }).catch((thrown) => thrown);
        expect(error.message).to.match(/^Invalid CPI response - .*\(CPI 'a', method 'has_vm'\)$/);
        expect(error.outcome).to.equal("unknown");
      });
  });

  describe("several CPIs", () => {
    it("are chosen by az, by record, by former name; one that is broken hurts nobody else", async () => {
      const [left, right] = [
        dispatcher.scriptCpi("left", answers('"d-left"')),
        dispatcher.scriptCpi("right", answers('"d-right"')),
      ];
      const broken = dispatcher.scriptCpi("broken", "exit 1");
      await dispatcher.setCpis([{ ...left, migratedFrom: ["older"] }, right, broken]);
      const create = (more: object) => director.createDisk({ ...newDisk, context: context(more) });
      expect(await create({ az: "z1", azCpi: "left" })).to.deep.equal({ diskCid: "d-left", cpi: "left" });
      expect(await create({ az: "z1", azCpi: "left", cpi: "right" })).to.deep.equal({
        diskCid: "d-right",
        cpi: "right",
      });
      expect(await create({ cpi: "older" })).to.deep.equal({ diskCid: "d-left", cpi: "left" });
      expect(await reasonOfFailed(create({ az: "z1", azCpi: "broken" }))).to.equal("UNAVAILABLE");
      expect(await reasonOfFailed(create({ az: "z1" }))).to.equal("INVALID_STATE");
      expect(await reasonOfFailed(create({ cpi: "nobody" }))).to.equal("CPI_UNUSABLE");
      expect((await create({ az: "", cpi: "" })).cpi, "the default").to.equal("");
      expect(own.calls).to.have.length(1);
    });

    it("are all tried for an unknown id: not found goes on, another error stops", async () => {
      const [a, b, c] = ["a", "b", "c"].map((name) =>
        dispatcher.scriptCpi(name, failsWith("Bosh::Clouds::VMNotFound")),
      );
      await dispatcher.setCpis([a, b, c] as CpiConfig[]);
      const remove = () => director.deleteVm({ context: context({ unknownId: true }), vmCid: "v" });
      expect(await reasonOfFailed(remove())).to.equal("VM_NOT_FOUND");
      dispatcher.scriptCpi("b", answers("null"));
      dispatcher.scriptCpi("c", answers("null"));
      await remove();
      expect(requestsOf(b as CpiConfig)).to.have.length(1);
      expect(requestsOf(c as CpiConfig)).to.have.length(0);
      dispatcher.scriptCpi("b", failsWith("Bosh::Clouds::CloudError"));
      expect(await reasonOfFailed(remove())).to.equal("CPI_FAILED");
      expect(requestsOf(c as CpiConfig)).to.have.length(0);
    });

    it("has-checks of an unknown id: no goes on, yes ends it", async () => {
      const cpis = [
        dispatcher.scriptCpi("a", answers("false")),
        dispatcher.scriptCpi("b", answers("true")),
        dispatcher.scriptCpi("c", answers("true")),
      ];
      await dispatcher.setCpis(cpis);
      const at = context({ unknownId: true });
      expect((await director.hasVm({ context: at, vmCid: "v" })).exists).to.equal(true);
      expect(requestsOf(cpis[2] as CpiConfig)).to.have.length(0);
      await dispatcher.setCpis([cpis[0] as CpiConfig], "v2");
      const alone = context({ unknownId: true, cpiConfigVersion: "v2" });
      expect((await director.hasDisk({ context: alone, diskCid: "d" })).exists).to.equal(false);
    });

    it("get a stemcell where its format fits; what one meets is said in its place", async () => {
      const image = join(dispatcher.folder, "image");
      writeFileSync(image, "");
      const cpis = [
        dispatcher.scriptCpi("ova", recording(V3, '"s-ova"')),
        dispatcher.scriptCpi("raw", recording(V2, '"s-raw"')),
        dispatcher.scriptCpi("failing", failsWith("Bosh::Clouds::CloudError")),
      ];
      await dispatcher.setCpis(cpis);
      const create = (more: object) =>
        director.createStemcell({
          context: context(),
          imagePath: image,
          cloudProperties: { os: "x" },
          stemcellFormats: [],
          tags: { t: "1" },
          exceptCpis: [],
          ...more,
        });
      const { stemcells } = await create({ stemcellFormats: ["raw", "ova"] });
      expect(stemcells.map(({ cpi, stemcellCid }) => [cpi, stemcellCid])).to.deep.equal([
        ["ova", "s-ova"],
        ["raw", "s-raw"],
        ["failing", ""],
      ]);
      expect(stemcells[2]?.error).to.include("CloudError");
      expect(requestsOf(cpis[0] as CpiConfig).at(-1)?.arguments).to.deep.equal([
        image,
        { os: "x" },
        { tags: { t: "1" } },
      ]);
      expect(requestsOf(cpis[1] as CpiConfig).at(-1)?.arguments).to.deep.equal([image, { os: "x" }]);
      const again = await create({ stemcellFormats: ["raw", "ova"], exceptCpis: ["ova", "raw"] });
      expect(again.stemcells.map(({ cpi }) => cpi)).to.deep.equal(["failing"]);
      expect(await reasonOfFailed(create({ stemcellFormats: ["vhd"] }))).to.equal("INVALID_STATE");
      expect(await reasonOfFailed(create({ imagePath: "relative" }))).to.equal("INVALID_ARGUMENT");
    });

    it("one that hangs is given up before the deadline, and the others are heard of", async () => {
      const stuck = dispatcher.scriptCpi("stuck", "sleep 60");
      const slow = dispatcher.scriptCpi(
        "slow",
        `${answers("null")}\ncase "$request" in *create_stemcell*) sleep 60 ;; esac`,
      );
      await dispatcher.setCpis([dispatcher.scriptCpi("well", answers('"made"')), stuck, slow]);
      const { cpis } = await director.listCpis({ context: context() }, { deadlineMs: 4_000 });
      expect(cpis.map(({ name, apiVersion }) => [name, apiVersion])).to.deep.equal([
        ["slow", 2],
        ["stuck", 0],
        ["well", 2],
      ]);
      expect(cpis[1]?.lastError).to.match(/did not answer within \d+ ms/);
      const stemcell = {
        imagePath: "/image",
        cloudProperties: {},
        stemcellFormats: [],
        tags: {},
        exceptCpis: [],
      };
      const request = { context: context({ preferredApiVersion: 2 }), ...stemcell };
      const { stemcells } = await director.createStemcell(request, { deadlineMs: 8_000 });
      expect(stemcells.map(({ cpi, stemcellCid }) => [cpi, stemcellCid])).to.deep.equal([
        ["well", "made"],
        ["stuck", ""],
        ["slow", ""],
      ]);
      for (const { error } of stemcells.slice(1)) expect(error).to.match(/did not answer within \d+ ms/);
    });

    it("are listed with version, formats and what they last met", async () => {
      await dispatcher.setCpis([dispatcher.scriptCpi("b", answers("null")), dispatcher.scriptCpi("a", "exit 1")]);
      await director.hasVm({ context: context({ cpi: "b" }), vmCid: "v" }).catch(() => {});
      const { cpis } = await director.listCpis({ context: context() });
      expect(
        cpis.map(({ name, type, apiVersion, stemcellFormats }) => [name, type, apiVersion, stemcellFormats]),
      ).to.deep.equal([
        ["a", "script", 0, []],
        ["b", "script", 2, ["raw"]],
      ]);
      expect(cpis.map(({ lastError }) => lastError)).to.satisfy(
        ([a, b]: string[]) => a?.includes("info") && b?.includes("has_vm"),
      );
      await director.deleteVm({ context: context({ cpi: "b" }), vmCid: "v" });
      expect((await director.listCpis({ context: context() })).cpis[1]?.lastError).to.equal("");
    });
  });

  describe("cpi-configs", () => {
    const cpi = (fields: Partial<CpiConfig>): CpiConfig => ({
      name: "a",
      type: "aws",
      execPath: "",
      migratedFrom: [],
      properties: undefined,
      azs: [],
      ...fields,
    });
    const set = (cpis: CpiConfig[], version = "v", generation = 1) =>
      reasonOfFailed(dispatcher.setCpis(cpis, version, generation));

    it("of a version that is not known here -> CPI_CONFIG_UNKNOWN, until it is told", async () => {
      const has = () => director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" });
      expect(await reasonOfFailed(has())).to.equal("CPI_CONFIG_UNKNOWN");
      await dispatcher.setCpis([dispatcher.scriptCpi("a", answers("true"))]);
      expect((await has()).exists).to.equal(true);
    });

    it("keep the last two versions; the same version never means two things", async () => {
      for (const version of ["v1", "v2", "v3"]) await dispatcher.setCpis([cpi({})], version);
      const info = (version: string) => director.info({ context: context({ cpiConfigVersion: version, cpi: "a" }) });
      expect(await reasonOfFailed(info("v1"))).to.equal("CPI_CONFIG_UNKNOWN");
      for (const version of ["v2", "v3"]) expect(await reasonOfFailed(info(version))).to.equal("CPI_UNUSABLE");
      await dispatcher.setCpis([cpi({})], "v3");
      expect(await set([cpi({ name: "b" })], "v3")).to.equal("ALREADY_EXISTS");
    });

    it("find executables where BOSH installs them", async () => {
      await dispatcher.setCpis([cpi({})]);
      const error = await director.info({ context: context({ cpi: "a" }) }).catch((thrown) => thrown);
      expect(error.message).to.include(join(dispatcher.folder, "aws_cpi/bin/cpi"));
    });

    const refused: [what: string, cpis: CpiConfig[], reason: string][] = [
      ["no CPI", [], "INVALID_ARGUMENT"],
      ["a name twice", [cpi({}), cpi({})], "CPI_CONFIG_INVALID"],
      ["a former name that another has", [cpi({}), cpi({ name: "b", migratedFrom: ["a"] })], "CPI_CONFIG_INVALID"],
      ["a name that is a path", [cpi({ name: "../a" })], "INVALID_ARGUMENT"],
    ];
    for (const [what, cpis, reason] of refused)
      it(`with ${what} -> ${reason}, and nothing of it is kept`, async () => {
        expect(await set(cpis)).to.equal(reason);
        expect(await reasonOfFailed(director.info({ context: context() }))).to.equal("CPI_CONFIG_UNKNOWN");
      });

    const unusable: [what: string, fields: Partial<CpiConfig>, why: string][] = [
      ["a type that is a path", { type: "../aws" }, "the type"],
      ["a relative exec_path", { execPath: "bin/cpi" }, "exec_path"],
      ["an exec_path with NUL", { execPath: "/bin/cpi\0" }, "exec_path"],
      ["an exec_path for fleet", { type: "fleet", execPath: "/bin/cpi" }, "exec_path"],
      ["a registry that is no address", { type: "fleet", properties: { registry_address: "x" } }, "registry_address"],
      ["no registry at all", { type: "fleet", properties: { registry_address: [] } }, "registry_address"],
    ];
    for (const [what, fields, why] of unusable)
      it(`with a CPI of ${what} -> its calls fail and say so, and the others serve`, async () => {
        await dispatcher.setCpis([cpi({ name: "wrong", ...fields }), dispatcher.scriptCpi("right", answers("true"))]);
        const has = (name: string) => director.hasVm({ context: context({ cpi: name }), vmCid: "v" });
        const error = await has("wrong").catch((thrown) => thrown);
        expect(error.name).to.equal("CpiUnusableError");
        expect(error.message).to.include(why);
        expect((await has("right")).exists).to.equal(true);
        const { cpis } = await director.listCpis({ context: context() });
        expect(cpis.map(({ lastError }) => lastError.includes(why))).to.deep.equal([false, true]);
      });

    it("may name all registries of a cell, of which one leads", async () => {
      const properties = { registry_address: ["127.0.0.1:1", "127.0.0.1:2"] };
      await dispatcher.setCpis([cpi({ type: "fleet", properties })]);
      expect((await director.info({ context: context({ cpi: "a" }) })).apiVersion).to.equal(2);
    });

    it("of an old director, or of none, are refused", async () => {
      await director.fence({ directorId: "d1", directorGeneration: 5 });
      expect(await set([cpi({})], "v", 4)).to.equal("OUTDATED");
      expect(await set([cpi({})], "../v", 5)).to.equal("INVALID_ARGUMENT");
      const request = { directorId: "d1", directorGeneration: 5, cpiConfigVersion: "v", cpis: [cpi({})] };
      expect(await reasonOfFailed(dispatcher.client("operator").setCpiConfig(request))).to.equal("PERMISSION_DENIED");
    });

    it("are listed to operators: the dispatcher's own, then each director's last, with the azs it told last", async () => {
      const listed = async () => {
        const { cpis } = await dispatcher.client("operator").listCpis({ context: undefined });
        return cpis.map(({ directorId, name, azs }) => [directorId, name, azs.join(" ")].join("/"));
      };
      expect(await listed()).to.deep.equal(["/memory/"]);
      await dispatcher.setCpis([cpi({ name: "old", azs: ["z9"] })], "v1");
      await dispatcher.setCpis([cpi({ name: "b", azs: ["z3", "z1"] }), cpi({})], "v2");
      expect(await listed()).to.deep.equal(["/memory/", "d1/a/", "d1/b/z1 z3"]);
      await dispatcher.setCpis([cpi({ name: "b" }), cpi({ azs: ["z1"] })], "v2");
      expect(await listed()).to.deep.equal(["/memory/", "d1/a/z1", "d1/b/"]);
      expect(await set([cpi({ azs: ["z\n1"] })], "v3")).to.equal("INVALID_ARGUMENT");
      expect(await set([cpi({})], "")).to.equal("INVALID_ARGUMENT");
      await dispatcher.setCpis([], "");
      expect(await listed()).to.deep.equal(["/memory/"]);
      const ofOld = director.info({ context: context({ cpiConfigVersion: "v2", cpi: "a" }) });
      expect(await reasonOfFailed(ofOld)).to.equal("CPI_CONFIG_UNKNOWN");
    });

    it("of one director are not another's", async () => {
      await dispatcher.setCpis([cpi({})]);
      const other = context({ directorId: "d2", cpi: "a" });
      expect(await reasonOfFailed(director.info({ context: other }))).to.equal("CPI_CONFIG_UNKNOWN");
    });
  });

  describe("logs", () => {
    const watch = (logId: string) => {
      const lines: string[] = [];
      const controller = new AbortController();
      const ended = (async () => {
        for await (const { line } of director.watchCpiLog({ logId }, { signal: controller.signal })) lines.push(line);
      })().catch(() => {});
      const stop = (): Promise<void> => {
        controller.abort();
        return ended;
      };
      return { lines, stop };
    };

    it("come line by line while the CPI works, to those who watch that id, with the answer's log", async () => {
      const script = `${answers("true")}\necho one >&2; sleep 0.5; echo two >&2`;
      await dispatcher.setCpis([dispatcher.scriptCpi("a", script)]);
      const [watching, stranger] = [watch("task-1"), watch("task-2")];
      const calling = director.hasVm({ context: context({ cpi: "a", logId: "task-1" }), vmCid: "v-1" });
      await eventually(() => watching.lines.includes("one"));
      expect(watching.lines).to.not.include("two");
      await calling;
      await eventually(() => watching.lines.includes("two") && watching.lines.includes("said"));
      expect(watching.lines.join("\n")).to.match(/\[a\] \{"method":"has_vm","arguments":\["v-1"\]/);
      expect(stranger.lines).to.deep.equal([]);
      await Promise.all([watching.stop(), stranger.stop()]);
    });

    it("reach a watcher who comes a little late", async () => {
      await dispatcher.setCpis([dispatcher.scriptCpi("a", `${answers("true")}\necho early >&2; sleep 1`)]);
      const calling = director.hasVm({ context: context({ cpi: "a", logId: "task-1" }), vmCid: "v" });
      await eventually(async () => (await processesOf(dispatcher.runFolder)).length > 0);
      const watching = watch("task-1");
      await calling;
      await eventually(() => watching.lines.includes("early"));
      await watching.stop();
    });
  });

  describe("calls that end early", () => {
    const SLOW = `read -r request\ncase "$request" in '{"method":"info"'*) echo '{"result":${V2},"error":null,"log":""}' ;; *) sleep 60 & sleep 60 ;; esac`;
    const gone = async () => (await processesOf(dispatcher.runFolder)).length === 0;

    it("are dead before Fence is answered, and their successors wait for that", async () => {
      await dispatcher.setCpis([dispatcher.scriptCpi("a", SLOW)]);
      const calls = Array.from({ length: 3 }, () =>
        reasonOfFailed(director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" })),
      );
      await eventually(async () => (await processesOf(dispatcher.runFolder)).length >= 6);
      await dispatcher.client("director").fence({ directorId: "d1", directorGeneration: 2 });
      expect(await processesOf(dispatcher.runFolder)).to.deep.equal([]);
      expect(await Promise.all(calls)).to.deep.equal(["CANCELLED", "CANCELLED", "CANCELLED"]);
    });

    it("have their own time to make a stemcell", async () => {
      const slow = new TestDispatcher(certificates, [new OfferedCpi("memory", "memory", own)], {
        callTimeoutMs: 2_000,
        createStemcellTimeoutMs: 60_000,
      });
      await slow.start();
      try {
        const script = `${answers('"made"')}\ncase "$request" in *has_vm*) sleep 60 ;; *create_stemcell*) sleep 3 ;; esac`;
        await slow.setCpis([slow.scriptCpi("a", script)]);
        const [client, named] = [slow.client("director"), context({ cpi: "a" })];
        const stemcell = { imagePath: "/image", cloudProperties: {}, stemcellFormats: [], tags: {}, exceptCpis: [] };
        const { stemcells } = await client.createStemcell({ context: named, ...stemcell });
        expect(stemcells).to.deep.equal([{ cpi: "a", stemcellCid: "made", error: "" }]);
        const error = await client.hasVm({ context: named, vmCid: "v" }).catch((thrown) => thrown);
        expect(error.message).to.include("longer than 2000 ms (executables.callTimeoutMs)");
      } finally {
        await slow.close();
      }
    });

    it("are gone within a second of being cancelled, and at their deadline", async () => {
      await dispatcher.setCpis([dispatcher.scriptCpi("a", SLOW)]);
      await director.info({ context: context({ cpi: "a" }) });
      const controller = new AbortController();
      const request = { context: context({ cpi: "a" }), vmCid: "v" };
      const cancelled = reasonOfFailed(director.hasVm(request, { signal: controller.signal }));
      const late = reasonOfFailed(director.hasVm(request, { deadlineMs: 800 }));
      await eventually(async () => (await processesOf(dispatcher.runFolder)).length >= 4);
      controller.abort();
      const cancelledAtMs = performance.now();
      await Promise.all([cancelled, late]);
      await eventually(gone);
      expect(performance.now() - cancelledAtMs).to.be.below(1_800);
      expect(await late).to.equal("TIMEOUT");
    });

    it("wait for their turn within the limit of calls of one CPI", async () => {
      const script = `${answers("true")}\nmkdir "$0.$$"; ls -d "$0".[0-9]* | wc -l >> "$0.most"; sleep 0.1; rmdir "$0.$$"`;
      const cpi = dispatcher.scriptCpi("a", script);
      await dispatcher.setCpis([cpi]);
      const calls = Array.from({ length: 32 }, () => director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" }));
      expect((await Promise.all(calls)).filter(({ exists }) => exists)).to.have.length(32);
      expect(requestsOf(cpi)).to.have.length(33);
      const most = Math.max(...readFileSync(`${cpi.execPath}.most`, "utf8").trim().split("\n").map(Number));
      expect(most).to.be.within(2, 4);
    });
  });
});
