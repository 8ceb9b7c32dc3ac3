import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type HostId, InvalidArgumentError, InvalidStateError, type Logger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import {
  createAuthority,
  createHostAuthority,
  type HostAuthority,
  hostRequest,
  parseHostRequest,
  signHostCertificate,
} from "@diskmesh/pki";
import { systemClock } from "@diskmesh/service";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { parseToken } from "../base/join-token.js";
import { runJoin } from "../commands/join-command.js";
import { renewIfDue } from "./renewal.js";

const HOST = "host-3" as HostId;
const DAY_MS = 86_400_000;
const log = { info: () => {} } as unknown as Logger;
const newKey = () =>
  String(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" }));

describe("an agent's certificate by a token", () => {
  const folder = temporaryFolder();
  const tls = { caFile: join(folder, "ca.pem"), certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
  let authority: HostAuthority;
  before(async () => {
    const mesh = await createAuthority({ commonName: "mesh", validDays: 900, pathLength: 1 });
    authority = { ...(await createHostAuthority(mesh)), endsAtMs: Date.now() + 900 * DAY_MS };
  });

  const signed = async (request: string, hostId = HOST) =>
    (await signHostCertificate(authority, await parseHostRequest(request, hostId))).chainPem;
  const serial = () => new X509Certificate(readFileSync(tls.certFile)).serialNumber;

  async function renewAfter(days: number, answer = signed): Promise<void> {
    const client = {
      renewCertificate: async ({ signingRequest = "" }) => ({ certificate: await answer(signingRequest) }),
      close: () => {},
    };
    const clock = { ...systemClock, nowMs: () => Date.now() + days * DAY_MS };
    await renewIfDue({ config: { hostId: HOST, tls }, connect: () => client as never, clock, log });
  }

  it("is renewed for the same key after a third of its life, and not for another host or key", async () => {
    const keyPem = newKey();
    writeFileSync(tls.keyFile, keyPem);
    writeFileSync(tls.certFile, await signed(await hostRequest(HOST, keyPem)));
    const first = serial();
    await renewAfter(29);
    expect(serial()).to.equal(first);
    const otherKey = async () => signed(await hostRequest(HOST, newKey()));
    expect((await rejection(() => renewAfter(31, otherKey), InvalidStateError)).message).to.contain(
      "another host or key",
    );
    const otherHost = async () => signed(await hostRequest("host-4" as HostId, keyPem), "host-4" as HostId);
    await rejection(() => renewAfter(31, otherHost), InvalidStateError);
    await rejection(() => renewAfter(31, async () => "nothing"), InvalidStateError);
    expect(serial()).to.equal(first);
    await renewAfter(31);
    expect(serial()).not.to.equal(first);
  });

  it("needs a whole token, and a malformed one is not shown", () => {
    const secret = "s".repeat(43);
    const good = `dmj1.0123456789ab.${secret}.${"a".repeat(64)}`;
    expect(parseToken(`${good}\n`)).to.deep.equal({ tokenId: "0123456789ab", secret, fingerprint: "a".repeat(64) });
    for (const bad of [
      "",
      good.slice(0, -1),
      `${good} ${good}`,
      good.replace("dmj1", "dmj2"),
      good.replace("01", ".."),
    ])
      expect(() => parseToken(bad)).to.throw(InvalidArgumentError, /^(?!.*sss).*join-token create/);
  });

  it("is asked for by a command line of which each part is well formed, before the token is used", async () => {
    const token = `dmj1.0123456789ab.${"s".repeat(43)}.${"a".repeat(64)}`;
    const good = ["127.0.0.1:1", token];
    const bad: readonly (readonly [readonly string[], RegExp])[] = [
      [[], /give an address and a token/],
      [["127.0.0.1:1"], /give an address and a token/],
      [[...good, "more"], /give an address and a token/],
      [["127.0.0.1", token], /ADDRESS/],
      [["127.0.0.1:0", token], /ADDRESS/],
      [["127.0.0.1:1,", token], /ADDRESS/],
      [["127.0.0.1:1", "dmj1.abc"], /the join token is malformed/],
      [["127.0.0.1:1", `${token}x`], /the join token is malformed/],
      [["127.0.0.1:1", join(folder, "none")], /cannot read the join token from the file .*ENOENT/],
      [[...good, "--host-id", ""], /--host-id is empty/],
      [[...good, "--host-id", "../x"], /--host-id/],
      [[...good, "--host-id", "x".repeat(65)], /--host-id/],
      [[...good, "--az", ""], /--az/],
      [[...good, "--az", "z 1"], /--az/],
      [[...good, "--az", "z\n1"], /--az/],
      [[...good, "--listen", "10.0.0.7"], /--listen/],
      [[...good, "--listen", "10.0.0.7:0"], /--listen/],
      [[...good, "--listen", "http://10.0.0.7:7040"], /--listen/],
      [[...good, "--drives", "dev/*"], /absolute path/],
      [[...good, "--drives", "/dev/\n*"], /absolute path/],
      [[...good, "--drives", "/dev/{1..9999}"], /more than 1000 patterns/],
      [[...good, "--drive", "/dev/sda"], /--drive/],
    ];
    for (const [line, says] of bad) {
      const { message } = await rejection(
        () => runJoin(["--folder", join(folder, "host"), ...line]),
        InvalidArgumentError,
      );
      expect(message, JSON.stringify(line)).to.match(says);
      expect(message.includes("sss"), "it shows the token").to.equal(false);
    }
    expect(existsSync(join(folder, "host"))).to.equal(false);
  });
});
