import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { TaskState, TaskType } from "@diskmesh/api/director";
import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, stemcellFile, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { TestDirector } from "../testing/test-director.js";

const CPIS = "cpis: [{name: east, type: a}, {name: west, type: b}]";
const CLOUD = "azs: [{name: z1, cpi: east}, {name: z2, cpi: west}]";
const MANIFEST = (az: string, version = "latest") => `name: web
stemcells: [{alias: default, os: ubuntu-noble, version: "${version}"}]
instance_groups: [{name: db, instances: 1, azs: [${az}], stemcell: default}]
`;

/** Longer than a busy machine needs for a part of an upload. */
const IDLE_TIMEOUT_MS = 4_000;

describe("stemcells", () => {
  let director: TestDirector;
  const folder = join(temporaryFolder(), "stemcells");

  before(async () => {
    const stemcells = {
      maxUploadBytes: 5_000,
      maxUnpackedBytes: 50_000,
      maxEntries: 4,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    };
    director = await TestDirector.start({ stemcells: { folder }, tuning: { stemcells } });
  });
  after(() => director?.stop());
  beforeEach(async () => {
    await director.deployments.deleteDeployment({ deployment: "web", wait: true });
    for (const { name, version } of await list())
      await director.stemcells.deleteStemcell({ name, version, force: true, wait: true }).catch(() => {});
    await director.configs.updateConfig({ type: "cpi", content: CPIS });
    await director.configs.updateConfig({ type: "cloud", content: CLOUD });
    director.cpi.stemcells.clear();
    director.cpi.formats.clear();
    director.cpi.brokenCpis.clear();
    director.cpi.withoutStemcells.clear();
    director.cpi.calls.length = 0;
  });

  const list = async () => (await director.stemcells.listStemcells({})).stemcells;
  const stored = () => (existsSync(folder) ? readdirSync(folder) : []);

  it("uploaded -> created with every CPI and the default CPI, and listed, and its image is deleted", async () => {
    const task = await director.upload(stemcellFile());
    expect(task).to.include({
      state: TaskState.DONE,
      result: "/stemcells/ubuntu/1.10",
      type: TaskType.UPDATE_STEMCELL,
    });
    expect(
      (await list()).map(({ name, version, cpi, apiVersion }) => ({ name, version, cpi, apiVersion })),
    ).to.deep.equal([
      { name: "ubuntu", version: "1.10", cpi: "", apiVersion: 3 },
      { name: "ubuntu", version: "1.10", cpi: "east", apiVersion: 3 },
      { name: "ubuntu", version: "1.10", cpi: "west", apiVersion: 3 },
    ]);
    expect([...director.cpi.stemcells.values()].map(({ image }) => image)).to.deep.equal([
      "an image",
      "an image",
      "an image",
    ]);
    await eventually(async () => stored().length === 0);
  });

  it("formats -> only with the CPIs that accept them; none -> an error with the reason", async () => {
    director.cpi.formats.set("east", ["raw"]).set("west", ["qcow2"]).set("", ["raw"]);
    expect((await director.upload(stemcellFile({ stemcell_formats: ["qcow2"] }))).state).to.equal(TaskState.DONE);
    expect((await list()).map(({ cpi }) => cpi)).to.deep.equal(["west"]);
    expect(director.cpi.calls).to.deep.equal(["createStemcell west"]);
    const none = await director.upload(stemcellFile({ version: "2", stemcell_formats: ["vmdk"] }));
    expect(none.result).to.match(
      /no CPI takes a stemcell of the formats "vmdk": upload a stemcell for east, west, the default CPI/,
    );
  });

  it("one CPI fails -> the other has it, and the error names the failed CPI; repeated -> only the missing CPI is called", async () => {
    director.cpi.brokenCpis.add("west");
    const failed = await director.upload(stemcellFile());
    expect(failed.state).to.equal(TaskState.ERROR);
    expect(failed.result).to.match(/was not created with CPI `west`: west is broken/);
    expect((await list()).map(({ cpi }) => cpi)).to.deep.equal(["", "east"]);
    director.cpi.brokenCpis.clear();
    director.cpi.withoutStemcells.clear();
    director.cpi.calls.length = 0;
    expect((await director.upload(stemcellFile())).state).to.equal(TaskState.DONE);
    expect(director.cpi.calls).to.deep.equal(["createStemcell west"]);
    const before = await list();
    director.cpi.calls.length = 0;
    await director.upload(stemcellFile());
    expect(director.cpi.calls).to.deep.equal([]);
    expect((await director.upload(stemcellFile(), { fix: true })).state).to.equal(TaskState.DONE);
    expect(director.cpi.calls).to.have.members(["createStemcell ", "createStemcell east", "createStemcell west"]);
    expect((await list()).map((each) => each.stemcellCid)).to.not.deep.equal(before.map((each) => each.stemcellCid));
  });

  const sha1 = (bytes: Buffer) => createHash("sha1").update(bytes).digest("hex");
  const BAD: [string, Buffer, string, RegExp][] = [
    ["no gzip", Buffer.from("hello"), "", /not a gzip file, or is damaged/],
    ["no tar", gzipSync(Buffer.alloc(1_024, 7)), "", /not a tar archive, or is damaged/],
    ["cut off", stemcellFile({}, { image: "x".repeat(5_000) }).subarray(0, 200), "", /damaged/],
    ["an empty archive", gzipSync(Buffer.alloc(1_024)), "", /has no stemcell\.MF/],
    ["no manifest", stemcellFile({}, { files: ["image"] }), "", /has no stemcell\.MF/],
    ["no image", stemcellFile({}, { files: ["stemcell.MF"] }), "", /has no image/],
    ["another image", stemcellFile({ sha1: "0".repeat(40) }), "", /image has the sha1 .*, not 0{40}/],
    ["another sha256", stemcellFile({ sha1: `sha256:${"0".repeat(64)}` }), "", /image has the sha256/],
    ["another tgz", stemcellFile(), "1".repeat(40), /the stemcell has the sha1 .*, not 1{40}/],
    ["a digest that is none", stemcellFile(), "abc", /digest "abc" is malformed/],
    ["no name", stemcellFile({ name: null }), "", /stemcell\.MF is not as expected: line 1: name/],
    ["a version that is a number", stemcellFile({ version: 1 }), "", /version/],
    ["a name that climbs", stemcellFile({ name: "../x" }), "", /name "\.\.\/x" is malformed/],
    ["an api_version that is a text", stemcellFile({ api_version: "3" }), "", /api_version/],
    [
      "an image above the limit",
      stemcellFile({}, { image: "x".repeat(50_001) }),
      "",
      /unpacks to more bytes than the limit \(50000\)/,
    ],
    [
      "a bomb beside the image",
      stemcellFile({}, { packages: "x".repeat(50_000), files: ["packages.txt", "stemcell.MF", "image"] }),
      "",
      /unpacks to more bytes than the limit/,
    ],
    [
      "a tgz above the limit",
      stemcellFile({}, { image: randomBytes(6_000).toString("base64") }),
      "",
      /has more bytes than the limit/,
    ],
    ["two images", stemcellFile({}, { files: ["stemcell.MF", "image", "image"] }), "", /two entries named image/],
    [
      "too many entries",
      stemcellFile({}, { files: ["packages.txt", "packages.txt", "packages.txt", "stemcell.MF", "image"] }),
      "",
      /more than 4 entries/,
    ],
  ];
  for (const [cause, file, digest, effect] of BAD) {
    it(`${cause} -> refused, and no file is left`, async () => {
      const error = await rejection(director.upload(file, { digest }));
      expect(error.message).to.match(effect);
      expect(error).to.be.instanceOf(InvalidArgumentError);
      expect(stored()).to.deep.equal([]);
      expect(await list()).to.deep.equal([]);
    });
  }

  it("matching digests, names with ./ -> accepted", async () => {
    const image = "another image";
    const sha256 = `sha256:${createHash("sha256").update(image).digest("hex")}`;
    const file = stemcellFile({ sha1: sha256 }, { image, files: ["./packages.txt", "./image", "./stemcell.MF"] });
    expect((await director.upload(file, { digest: sha1(file) })).state).to.equal(TaskState.DONE);
  });

  it("an upload that stalls, or begins without a header -> ended", async () => {
    const file = stemcellFile();
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    async function* silent() {
      yield { part: { $case: "header" as const, value: {} } };
      yield { part: { $case: "chunk" as const, value: file.subarray(0, 10) } };
      await ended;
    }
    await rejection(director.stemcells.uploadStemcell(silent()), Error, /no data arrived for 4000 ms/);
    end();
    async function* headless() {
      yield { part: { $case: "chunk" as const, value: file } };
    }
    await rejection(director.stemcells.uploadStemcell(headless()), Error, /must be the header/);
    await eventually(async () => stored().length === 0);
  });

  it("killed while a CPI creates it -> the next director still has the image, and finishes", async () => {
    const gate = director.cpi.gate("createStemcell", "before");
    const uploading = director.upload(stemcellFile()).catch(() => {});
    await gate.reached;
    await director.process.kill();
    const starting = director.process.start();
    await starting;
    gate.release();
    await uploading;
    await eventually(async () => (await list()).length === 3);
    await eventually(async () => stored().length === 0);
  });

  it("a VM uses the highest version with its az's CPI; a stemcell in use -> deleted only by force", async () => {
    await director.upload(stemcellFile({ version: "1.9", api_version: 2 }));
    await director.upload(stemcellFile());
    const { task } = await director.deployments.deploy({ manifest: MANIFEST("z2"), wait: true });
    expect(task?.result).to.equal("/deployments/web");
    const [instance] = (await director.deployments.listInstances({ deployment: "web" })).instances;
    expect(instance).to.include({ stemcell: "ubuntu/1.10", stemcellApiVersion: 3, cpi: "west", cpiApiVersion: 2 });
    const rows = await list();
    const row = rows.find((each) => each.version === "1.10" && each.cpi === "west");
    expect(director.cpi.vms.get(instance?.vmCid ?? "")?.request.stemcellCid).to.equal(row?.stemcellCid);
    expect(row?.deployments).to.deep.equal(["web"]);
    const stemcell = { name: "ubuntu", version: "1.10" };
    const used = await director.stemcells.deleteStemcell({ ...stemcell, wait: true });
    expect(used.task?.result).to.match(/in use by deployments `web`/);
    const forced = await director.stemcells.deleteStemcell({ ...stemcell, force: true, wait: true });
    expect(forced.task?.state).to.equal(TaskState.DONE);
    expect((await list()).map(({ version }) => version)).to.deep.equal(["1.9", "1.9", "1.9"]);
    expect(director.cpi.stemcells.size).to.equal(3);
    await rejection(director.stemcells.deleteStemcell({ ...stemcell, wait: true }), NotFoundError);
  });

  it("its CPI is no longer in any cpi-config -> its record is kept, because the stemcell still exists", async () => {
    await director.upload(stemcellFile());
    await director.configs.updateConfig({ type: "cpi", content: "cpis: [{name: west, type: b}]" });
    const stemcell = { name: "ubuntu", version: "1.10" };
    const { task } = await director.stemcells.deleteStemcell({ ...stemcell, wait: true });
    expect(task?.result).to.match(/CPI 'east' not found in cpi-config/);
    expect((await list()).map(({ cpi }) => cpi)).to.include("east");
  });

  it("an unknown stemcell, or one that the CPI lacks -> the deploy is refused", async () => {
    const missing = await rejection(director.deployments.deploy({ manifest: MANIFEST("z1"), wait: true }));
    expect(missing.message).to.match(/there is no stemcell of OS `ubuntu-noble`, version `latest`: upload it/);
    director.cpi.formats.set("east", ["raw"]);
    await director.upload(stemcellFile({ stemcell_formats: ["qcow2"] }));
    const elsewhere = await rejection(director.deployments.deploy({ manifest: MANIFEST("z1"), wait: true }));
    expect(elsewhere.message).to.match(/has no format that CPI `east` takes: upload a stemcell for it/);
  });

  it("a CPI whose VMs need no stemcell -> the manifest may name one; another version changes nothing", async () => {
    director.cpi.withoutStemcells.add("west");
    expect((await director.upload(stemcellFile({ version: "1", api_version: 1 }))).state).to.equal(TaskState.DONE);
    expect((await list()).map(({ cpi, stemcellCid }) => [cpi, stemcellCid !== ""])).to.deep.equal([
      ["", true],
      ["east", true],
      ["west", false],
    ]);
    const deploy = async () => (await director.deployments.deploy({ manifest: MANIFEST("z2"), wait: true })).task;
    const instances = async () => (await director.deployments.listInstances({ deployment: "web" })).instances;
    // The VM has no stemcell here: a stemcell of API version 1 would need the bosh-registry, which this director does
    // not have.
    expect((await deploy())?.result).to.equal("/deployments/web");
    const before = await instances();
    expect(before[0]).to.include({ stemcell: "", stemcellApiVersion: 0, usesRegistry: false, cpi: "west" });
    expect(director.cpi.vms.get(before[0]?.vmCid ?? "")?.request.stemcellCid).to.equal("");
    await director.upload(stemcellFile({ version: "2" }));
    expect((await deploy())?.result).to.equal("/deployments/web");
    expect(await instances()).to.deep.equal(before);
    director.cpi.calls.length = 0;
    const deleted = await director.stemcells.deleteStemcell({ name: "ubuntu", version: "1", wait: true });
    expect(deleted.task?.state).to.equal(TaskState.DONE);
    expect(director.cpi.calls.map((call) => call.replace(/-.*/, ""))).to.deep.equal([
      "deleteStemcell sc",
      "deleteStemcell sc",
    ]);
  });

  describe("for instances without an az, which use the default CPI", () => {
    const WITHOUT_AZ = MANIFEST("").replace("azs: [], ", "");
    const deploy = () => director.deployments.deploy({ manifest: WITHOUT_AZ, wait: true });
    const events = async (taskId: number) => (await director.eventTexts(taskId)).join("\n");

    it("the default CPI fails -> the upload is done and says why; the cure that the deploy names works", async () => {
      director.cpi.brokenCpis.add("");
      const uploaded = await director.upload(stemcellFile());
      expect(uploaded).to.include({ state: TaskState.DONE, result: "/stemcells/ubuntu/1.10" });
      expect(await events(uploaded.taskId)).to.contain("No stemcell ubuntu/1.10 (the default CPI):  is broken");
      const { message } = await rejection(deploy());
      expect(message).to.contain("was not created with the default CPI: upload it again to create it there");
      director.cpi.brokenCpis.clear();
      director.cpi.calls.length = 0;
      expect((await director.upload(stemcellFile())).state).to.equal(TaskState.DONE);
      expect(director.cpi.calls).to.deep.equal(["createStemcell "]);
      expect((await deploy()).task?.result).to.equal("/deployments/web");
      const [instance] = (await director.deployments.listInstances({ deployment: "web" })).instances;
      expect(instance).to.include({ az: "", cpi: "", stemcell: "ubuntu/1.10" });
      const [row] = (await list()).filter(({ cpi }) => cpi === "");
      expect(director.cpi.vms.get(instance?.vmCid ?? "")).to.deep.include({ cpi: "" });
      expect(director.cpi.vms.get(instance?.vmCid ?? "")?.request.stemcellCid).to.equal(row?.stemcellCid);
    });

    it("a CPI has adopted the default CPI's objects -> created with that CPI, not with the default", async () => {
      const content = "cpis: [{name: east, type: a, migrated_from: [{name: ''}]}, {name: west, type: b}]";
      await director.configs.updateConfig({ type: "cpi", content });
      await director.upload(stemcellFile());
      expect((await list()).map(({ cpi }) => cpi)).to.deep.equal(["east", "west"]);
      expect((await deploy()).task?.result).to.equal("/deployments/web");
    });

    it("the default CPI takes other formats -> not asked again; the deploy says so, and the cure works", async () => {
      director.cpi.formats.set("", ["raw"]).set("east", ["qcow2"]).set("west", ["qcow2"]);
      const file = stemcellFile({ stemcell_formats: ["qcow2"] });
      await director.upload(file);
      const { message } = await rejection(deploy());
      expect(message).to.contain("has no format that the default CPI takes: upload a stemcell for it");
      await director.upload(stemcellFile({ version: "2", stemcell_formats: ["raw"] }));
      expect((await list()).map(({ version, cpi }) => [version, cpi])).to.deep.equal([
        ["1.10", "east"],
        ["1.10", "west"],
        ["2", ""],
      ]);
      expect((await deploy()).task?.result).to.equal("/deployments/web");
      director.cpi.formats.clear();
      await director.upload(file);
      expect((await list()).filter(({ version }) => version === "1.10")).to.have.length(2);
      await director.upload(file, { fix: true });
      expect((await list()).filter(({ version }) => version === "1.10")).to.have.length(3);
    });
  });
});
