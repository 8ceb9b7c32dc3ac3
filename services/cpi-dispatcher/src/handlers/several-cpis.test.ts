import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { CpiConfig } from "@diskmesh/api/cpi";
import { reasonOfFailed } from "@diskmesh/cpi/testing";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
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

describe("several CPIs behind the dispatcher", () => {
  const bench = ScriptDispatcher.forEachTest();

  describe("several CPIs", () => {
    it("are chosen by az, by record, by former name; a broken CPI does not affect the others", async () => {
      const [left, right] = [
        bench.dispatcher.scriptCpi("left", answers('"d-left"')),
        bench.dispatcher.scriptCpi("right", answers('"d-right"')),
      ];
      const broken = bench.dispatcher.scriptCpi("broken", "exit 1");
      await bench.dispatcher.setCpis([{ ...left, migratedFrom: ["older"] }, right, broken]);
      const create = (more: object) => bench.director.createDisk({ ...NEW_DISK, context: context(more) });
      expect(await create({ az: "z1", azCpi: "left" })).to.include({ diskCid: "d-left", cpi: "left" });
      expect(await create({ az: "z1", azCpi: "left", cpi: "right" })).to.include({
        diskCid: "d-right",
        cpi: "right",
      });
      expect(await create({ cpi: "older" })).to.include({ diskCid: "d-left", cpi: "left" });
      expect(await reasonOfFailed(create({ az: "z1", azCpi: "broken" }))).to.equal("CPI_UNUSABLE");
      expect(await reasonOfFailed(create({ az: "z1" }))).to.equal("INVALID_STATE");
      expect(await reasonOfFailed(create({ cpi: "nobody" }))).to.equal("CPI_UNUSABLE");
      expect((await create({ az: "", cpi: "" })).cpi, "the default").to.equal("");
      expect(bench.own.calls).to.have.length(1);
    });

    it("get a stemcell in a format that they accept; a CPI's error is reported in its entry", async () => {
      const image = join(bench.dispatcher.folder, "image");
      writeFileSync(image, "");
      const cpis = [
        bench.dispatcher.scriptCpi("ova", recording(V3, '"s-ova"')),
        bench.dispatcher.scriptCpi("raw", recording(V2, '"s-raw"')),
        bench.dispatcher.scriptCpi("failing", failsWith("Bosh::Clouds::CloudError")),
      ];
      await bench.dispatcher.setCpis(cpis);
      const create = (more: object) =>
        bench.director.createStemcell({
          context: context(),
          imagePath: image,
          cloudProperties: { os: "x" },
          tags: { t: "1" },
          exceptCpis: [""],
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
      const again = await create({ stemcellFormats: ["raw", "ova"], exceptCpis: ["ova", "raw", ""] });
      expect(again.stemcells.map(({ cpi }) => cpi)).to.deep.equal(["failing"]);
      expect(await create({ stemcellFormats: ["vhd"] }), "the default CPI alone takes it").to.deep.equal({
        stemcells: [],
      });
      expect(await reasonOfFailed(create({ imagePath: "relative" }))).to.equal("INVALID_ARGUMENT");
    });

    it("a hanging CPI is given up before the deadline, and the others' outcomes are reported", async () => {
      const stuck = bench.dispatcher.scriptCpi("stuck", "sleep 60");
      const slow = bench.dispatcher.scriptCpi(
        "slow",
        `read -r request\ncase "$request" in *create_stemcell*) sleep 60 ;; *) echo '{"result":${V2},"error":null,"log":""}' ;; esac`,
      );
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("well", answers('"made"')), stuck, slow]);
      const { cpis } = await bench.director.listCpis({ context: context() }, { deadlineMs: 10_000 });
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
        exceptCpis: [""],
      };
      const request = { context: context({ preferredApiVersion: 2 }), ...stemcell };
      const { stemcells } = await bench.director.createStemcell(request, { deadlineMs: 14_000 });
      expect(stemcells.map(({ cpi, stemcellCid }) => [cpi, stemcellCid])).to.deep.equal([
        ["well", "made"],
        ["stuck", ""],
        ["slow", ""],
      ]);
      // The info call has its own time limit, which may expire first.
      expect(stemcells[1]?.error).to.match(/took longer than \d+ ms|did not answer within \d+ ms/);
      expect(stemcells[2]?.error).to.match(/did not answer within \d+ ms/);
    });

    it("are listed with version, formats and last error", async () => {
      await bench.dispatcher.setCpis([
        bench.dispatcher.scriptCpi("b", answers("null")),
        bench.dispatcher.scriptCpi("a", "exit 1"),
      ]);
      await bench.director.hasVm({ context: context({ cpi: "b" }), vmCid: "v" }).catch(() => {});
      const { cpis } = await bench.director.listCpis({ context: context() });
      expect(
        cpis.map(({ name, type, apiVersion, stemcellFormats }) => [name, type, apiVersion, stemcellFormats]),
      ).to.deep.equal([
        ["a", "script", 0, []],
        ["b", "script", 2, ["raw"]],
      ]);
      expect(cpis.map(({ lastError }) => lastError)).to.satisfy(
        ([a, b]: string[]) => a?.includes("info") && b?.includes("has_vm"),
      );
      await bench.director.deleteVm({ context: context({ cpi: "b" }), vmCid: "v" });
      expect((await bench.director.listCpis({ context: context() })).cpis[1]?.lastError).to.equal("");
    });
  });

  describe("cpi-configs", () => {
    const cpi = (fields: Partial<CpiConfig>) => CpiConfig.fromPartial({ name: "a", type: "aws", ...fields });
    const set = (cpis: CpiConfig[], version = "v", generation = 1) =>
      reasonOfFailed(bench.dispatcher.setCpis(cpis, version, generation));

    it("of an unknown version -> CPI_CONFIG_UNKNOWN, until it is sent", async () => {
      const has = () => bench.director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" });
      expect(await reasonOfFailed(has())).to.equal("CPI_CONFIG_UNKNOWN");
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("a", answers("true"))]);
      expect((await has()).exists).to.equal(true);
    });

    it("keep the last two versions; a version never has two contents", async () => {
      for (const version of ["v1", "v2", "v3"]) await bench.dispatcher.setCpis([cpi({})], version);
      const info = (version: string) =>
        bench.director.info({ context: context({ cpiConfigVersion: version, cpi: "a" }) });
      expect(await reasonOfFailed(info("v1"))).to.equal("CPI_CONFIG_UNKNOWN");
      for (const version of ["v2", "v3"]) expect(await reasonOfFailed(info(version))).to.equal("CPI_UNUSABLE");
      await bench.dispatcher.setCpis([cpi({})], "v3");
      expect(await set([cpi({ name: "b" })], "v3")).to.equal("ALREADY_EXISTS");
    });

    it("find executables where BOSH installs them", async () => {
      await bench.dispatcher.setCpis([cpi({})]);
      const error = await rejection(bench.director.info({ context: context({ cpi: "a" }) }));
      expect(error.message).to.include(join(bench.dispatcher.folder, "aws_cpi/bin/cpi"));
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
        expect(await reasonOfFailed(bench.director.info({ context: context() }))).to.equal("CPI_CONFIG_UNKNOWN");
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
      it(`with a CPI of ${what} -> its calls fail with the reason, and the others work`, async () => {
        await bench.dispatcher.setCpis([
          cpi({ name: "wrong", ...fields }),
          bench.dispatcher.scriptCpi("right", answers("true")),
        ]);
        const has = (name: string) => bench.director.hasVm({ context: context({ cpi: name }), vmCid: "v" });
        const error = await rejection(has("wrong"));
        expect(error.reason).to.equal("CPI_UNUSABLE");
        expect(error.message).to.include(why);
        expect((await has("right")).exists).to.equal(true);
        const { cpis } = await bench.director.listCpis({ context: context() });
        expect(cpis.map(({ lastError }) => lastError.includes(why))).to.deep.equal([false, true]);
      });

    it("may name all registries of a cell, of which one leads", async () => {
      const properties = { registry_address: ["127.0.0.1:1", "127.0.0.1:2"] };
      await bench.dispatcher.setCpis([cpi({ type: "fleet", properties })]);
      expect((await bench.director.info({ context: context({ cpi: "a" }) })).apiVersion).to.equal(2);
    });

    it("of an outdated director, or of none, are refused", async () => {
      await bench.director.fence({ directorId: "d1", directorGeneration: 5 });
      expect(await set([cpi({})], "v", 4)).to.equal("OUTDATED");
      expect(await set([cpi({})], "../v", 5)).to.equal("INVALID_ARGUMENT");
      const request = { directorId: "d1", directorGeneration: 5, cpiConfigVersion: "v", cpis: [cpi({})] };
      expect(await reasonOfFailed(bench.dispatcher.client("operator").setCpiConfig(request))).to.equal(
        "PERMISSION_DENIED",
      );
    });

    it("are listed to operators: the dispatcher's own CPIs, then each director's last config with its azs", async () => {
      const listed = async () => {
        const { cpis } = await bench.dispatcher.client("operator").listCpis({});
        return cpis.map(({ directorId, name, azs }) => [directorId, name, azs.join(" ")].join("/"));
      };
      expect(await listed()).to.deep.equal(["/memory/"]);
      await bench.dispatcher.setCpis([cpi({ name: "old", azs: ["z9"] })], "v1");
      await bench.dispatcher.setCpis([cpi({ name: "b", azs: ["z3", "z1"] }), cpi({})], "v2");
      expect(await listed()).to.deep.equal(["/memory/", "d1/a/", "d1/b/z1 z3"]);
      await bench.dispatcher.setCpis([cpi({ name: "b" }), cpi({ azs: ["z1"] })], "v2");
      expect(await listed()).to.deep.equal(["/memory/", "d1/a/z1", "d1/b/"]);
      expect(await set([cpi({ azs: ["z\n1"] })], "v3")).to.equal("INVALID_ARGUMENT");
      expect(await set([cpi({})], "")).to.equal("INVALID_ARGUMENT");
      await bench.dispatcher.setCpis([], "");
      expect(await listed()).to.deep.equal(["/memory/"]);
      const ofOld = bench.director.info({ context: context({ cpiConfigVersion: "v2", cpi: "a" }) });
      expect(await reasonOfFailed(ofOld)).to.equal("CPI_CONFIG_UNKNOWN");
    });

    it("of one director are invisible to others", async () => {
      await bench.dispatcher.setCpis([cpi({})]);
      const other = context({ directorId: "d2", cpi: "a" });
      expect(await reasonOfFailed(bench.director.info({ context: other }))).to.equal("CPI_CONFIG_UNKNOWN");
    });
  });
});
