import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { skipBecause } from "@diskmesh/domain/testing";
import { MeshCertificates, parseHolders } from "@diskmesh/pki";
import { expect } from "chai";
import { runCommandLine } from "../command-line.js";

describe("files that the command trusts", () => {
  let folder: string;
  let environment: Record<string, string>;
  const at = (name: string): string => join(folder, name);

  /** Nothing listens at the addresses, so a command that accepts its files fails as unreachable. */
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "dm-cli trusted-"));
    const certificates = await MeshCertificates.open(at("pki"), { makes: true });
    await certificates.make(parseHolders("operator/ann\n", "mesh.list"), { validDays: 1, all: false, newKeys: false });
    mkdirSync(at("config/diskmesh"), { recursive: true });
    const variables = {
      DISKMESH_REGISTRY: "127.0.0.1:1",
      DISKMESH_CA: at("pki/ca.pem"),
      DISKMESH_CERT: at("pki/operator-ann.pem"),
      DISKMESH_KEY: at("pki/operator-ann-key.pem"),
    };
    const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(at("config/diskmesh/prod.env"), lines.join(""));
    environment = { XDG_CONFIG_HOME: at("config"), DISKMESH_CONTEXT: "prod" };
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  async function typed(args: readonly string[] = ["hosts"]) {
    const [out, err] = [new PassThrough(), new PassThrough()];
    const signal = new AbortController().signal;
    const code = await runCommandLine(args, {
      out,
      err,
      environment,
      workingFolder: folder,
      signal,
      callDeadlineMs: 500,
    });
    return { code, err: String(err.read() ?? "") };
  }

  /** Expects a refusal whose cure, typed in a shell, makes the command work. */
  async function refusesUntilCured(says: RegExp, args?: readonly string[]): Promise<void> {
    const { code, err } = await typed(args);
    expect([code, err]).to.satisfy(([ended, text]: [number, string]) => ended === 2 && says.test(text), err);
    const cure = /: (chmod .*)$/m.exec(err)?.[1] ?? "";
    expect(spawnSync("sh", ["-c", cure], { encoding: "utf8" }).stderr).to.equal("");
    expect((await typed(args)).code).to.not.equal(2);
  }

  it("are accepted as `diskmesh pki make` and an editor write them", async () => {
    expect((await typed()).code).to.not.equal(2);
  });

  it("are accepted as Kubernetes mounts a secret: links, and a key for a group", async () => {
    mkdirSync(at("..data"));
    renameSync(at("pki/operator-ann-key.pem"), at("..data/key"));
    chmodSync(at("..data/key"), 0o440);
    symlinkSync(at("..data/key"), at("pki/operator-ann-key.pem"));
    expect((await typed()).code).to.not.equal(2);
  });

  it("a key that others may read is refused, also where a link leads to it", async () => {
    renameSync(at("pki/operator-ann-key.pem"), at("key"));
    symlinkSync(at("key"), at("pki/operator-ann-key.pem"));
    chmodSync(at("key"), 0o644);
    await refusesUntilCured(/may read the key/);
  });

  it("the authority's key that others may read is refused", async () => {
    chmodSync(at("pki/ca-key.pem"), 0o644);
    await refusesUntilCured(/may read the key .*ca-key/, ["pki", "list", "--folder", at("pki")]);
  });

  it("the seed of NATS that others may read is refused", async () => {
    const args = ["nats-config", at("nats"), "--folder", at("pki")];
    expect((await typed(args)).code).to.equal(0);
    chmodSync(at("pki/nats-issuer.seed"), 0o604);
    await refusesUntilCured(/may read the key .*seed/, args);
  });

  for (const name of ["config/diskmesh/prod.env", "pki/ca.pem", "pki/operator-ann.pem"])
    it(`${name} that others may write is refused`, async () => {
      chmodSync(at(name), 0o666);
      await refusesUntilCured(/may change .*: chmod o-w/);
    });

  for (const name of ["config/diskmesh", "config", "pki"])
    it(`files below ${name} that others may write are refused, unless it is sticky`, async () => {
      chmodSync(at(name), 0o1777);
      expect((await typed()).code).to.not.equal(2);
      chmodSync(at(name), 0o777);
      await refusesUntilCured(/may replace what is in .*: chmod o-w/);
    });

  it("the addresses of a state folder that others may write are refused", async () => {
    environment = { DISKMESH_STATE: at(".diskmesh") };
    mkdirSync(at(".diskmesh"));
    renameSync(at("pki"), at(".diskmesh/certs"));
    writeFileSync(at(".diskmesh/endpoints.json"), '{"disk-registry": {"grpc": "127.0.0.1:1"}}');
    for (const part of ["", "-key"])
      renameSync(at(`.diskmesh/certs/operator-ann${part}.pem`), at(`.diskmesh/certs/operator${part}.pem`));
    chmodSync(at(".diskmesh/endpoints.json"), 0o666);
    await refusesUntilCured(/may change .*endpoints\.json/);
  });

  it("a state folder of another user is used only when it is named", async function () {
    if (process.getuid?.() !== 0) return skipBecause(this, "only root gives folders to other users");
    environment = {};
    mkdirSync(at(".diskmesh"));
    writeFileSync(at(".diskmesh/endpoints.json"), "{}");
    chownSync(at(".diskmesh"), 65_534, 65_534);
    expect((await typed()).err).to.contain("belongs to another user: give --state '");
    expect((await typed(["hosts", "--state", at(".diskmesh")])).err).to.contain("endpoints.json has no address");
  });
});
