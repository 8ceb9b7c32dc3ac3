import { statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { Verbs } from "./verbs.js";
import { publicKeyOf, whyNoWireGuard } from "./wireguard.js";

/** Public key that `wg pubkey` prints for a private key of 32 bytes 7. */
const PUBLIC_KEY = "E75P6uryBMf9M1j8nAByGIHRdCeBKCJ+xnTzf3/pe20=";

describe("WireGuard of a host", () => {
  it("has a key of its own, which only the agent's user may read and each start finds again", async () => {
    const file = join(temporaryFolder(), "wireguard.key");
    const made = await publicKeyOf(file);
    expect(statSync(file).mode & 0o777).to.equal(0o600);
    expect(await publicKeyOf(file)).to.equal(made);
    expect(await publicKeyOf(join(temporaryFolder(), "wireguard.key"))).to.not.equal(made);
  });

  it("has the public key of its private key", async () => {
    const file = join(temporaryFolder(), "wireguard.key");
    writeFileSync(file, `${Buffer.alloc(32, 7).toString("base64")}\n`);
    expect(await publicKeyOf(file)).to.equal(PUBLIC_KEY);
  });

  it("does not replace a file without a key", async () => {
    const file = join(temporaryFolder(), "wireguard.key");
    writeFileSync(file, "no key");
    expect((await rejection(publicKeyOf(file), Error)).message).to.match(/has no private key of WireGuard/);
  });

  it("names the first program that the host lacks, and its package", async () => {
    const folder = temporaryFolder();
    for (const name of ["sh", "true"]) symlinkSync(`/bin/${name}`, join(folder, name === "true" ? "ip" : name));
    const { PATH } = process.env;
    process.env.PATH = folder;
    try {
      expect(await whyNoWireGuard(new Verbs())).to.match(/: wg is not on PATH \(Debian: wireguard-tools\)$/);
    } finally {
      process.env.PATH = PATH;
    }
  });
});
