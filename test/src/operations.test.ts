import { spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { certificateFiles } from "@diskmesh/pki";
import { type DatabaseProcess, databaseUrl, newDocumentDatabase, newTabletName } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { AWAY, AwayScene, awayRows, isThere } from "./operations/away.js";
import { stepsOf } from "./operations/document.js";
import { DocumentedMesh } from "./operations/documented-mesh.js";
import type { Machine } from "./operations/machine.js";
import { isLetIn, shownSerial } from "./operations/tls-asked.js";
import { repositoryFolder } from "./repository-folder.js";

/** Beside what comes with Node and the system itself. */
const PROGRAMS = ["bash", "nats-server", "grpcurl", "nbdcopy"];
const DOCUMENT = join(repositoryFolder, "docs/operations.md");

describe("docs/operations.md", function () {
  this.timeout(1_200_000);
  // Each step stands on those before it.
  this.bail(true);
  let mesh: DocumentedMesh;
  let database: DatabaseProcess | undefined;

  before(async function () {
    leaveToVerify(this);
    const missing = PROGRAMS.find((program) => spawnSync(program, ["--version"]).error !== undefined);
    if (missing !== undefined) skipBecause(this, `${missing} is not on PATH`);
    if (process.platform !== "linux") skipBecause(this, "the loopback interface has no addresses for machines here");
    const found = await newDocumentDatabase({ host: "127.0.0.1", launcher: [] });
    if (typeof found === "string") skipBecause(this, found);
    database = found.process;
    const archives = temporaryFolder();
    const { makeRelease } = await import(join(repositoryFolder, "deploy/local/bootstrap/release.mjs"));
    const { version } = await makeRelease(repositoryFolder, archives);
    mesh = await DocumentedMesh.start({
      values: {
        VERSION: version,
        DATABASE: `"${databaseUrl(found.url, newTabletName())}"`,
        DRIVES: '"MACHINE/drives/*"',
      },
      prepare: (machine) => {
        if (machine.name === "admin")
          for (const file of readdirSync(archives))
            copyFileSync(join(archives, file), join(machine.folder, "home", file));
        if (machine.name.startsWith("host-")) for (const number of [1, 2]) plugIn(machine, number);
      },
    });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  /** What happens, or is looked at, after the steps of a section. */
  const afterwards: Readonly<Record<string, () => Promise<void> | void>> = {
    NATS: async () => {
      const asked = { host: mesh.address("control-1"), port: 6222 };
      await eventually(async () => expect(await isLetIn(asked, pkiFiles("nats-control-2"))).to.equal(true));
      for (const other of ["disk-agent-host-1", "director"])
        expect(await isLetIn(asked, pkiFiles(other)), `${other} as a server of the cluster`).to.equal(false);
    },
    "Certificates: renewing, revoking, replacing the authority": async () => {
      const servers = [
        ["control-1", 4222, "nats-control-1"],
        ["control-2", 7010, "director"],
        ["control-1", 7020, "cpi-dispatcher"],
        ["control-2", 7030, "disk-registry"],
        ["host-3", 7040, "disk-agent-host-3"],
      ] as const;
      for (const [name, port, holder] of servers) {
        const wanted = new X509Certificate(readFileSync(pkiFiles(holder).certFile)).serialNumber;
        const asked = { host: mesh.address(name), port };
        await eventually(async () => expect(await shownSerial(asked, pkiFiles(holder)), holder).to.equal(wanted));
      }
    },
    "Adding a host": () => plugIn(mesh.machine("host-4"), 3),
  };
  const pkiFiles = (name: string) => certificateFiles(join(mesh.machine("admin").folder, "home/pki"), name);

  const document = readFileSync(DOCUMENT, "utf8");
  const sections = new Map<string, ReturnType<typeof stepsOf>>();
  for (const step of stepsOf(document)) sections.set(step.section, [...(sections.get(step.section) ?? []), step]);
  for (const [section, steps] of sections)
    it(section, async () => {
      for (const step of steps) await mesh.follow(step);
      await afterwards[section]?.();
    });

  describe("what happens when a part is away", function () {
    this.bail(false);
    let scene: AwayScene;
    before(async () => {
      scene = new AwayScene(mesh, database);
      await scene.begin();
    });
    after(() => scene?.end());

    it("the table has a row for each test, and each row has one", () => {
      expect(awayRows(document)).to.deep.equal(Object.keys(AWAY));
    });
    for (const [part, proof] of Object.entries(AWAY))
      it(part, async function () {
        if (typeof proof === "object") return expect(isThere(proof), `${proof.file}: ${proof.title}`).to.equal(true);
        const why = await proof(scene);
        if (why !== undefined) skipBecause(this, why);
      });
  });
});

/** Gives a machine a drive. */
function plugIn({ folder }: Machine, number: number): void {
  mkdirSync(join(folder, "drives"), { recursive: true });
  makeDeviceFile(join(folder, "drives", `${number}`), 4 * MIB_BYTES);
}
