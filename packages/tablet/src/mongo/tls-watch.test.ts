import { readFileSync } from "node:fs";
import { type Logger, silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority } from "@diskmesh/pki";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { WatchedFiles } from "@diskmesh/tls";
import { expect } from "chai";
import { watchStorageTls } from "../open-storage.js";
import { connectToMongo } from "./driver-server.js";
import { documentDatabase } from "./testing/document-database.js";
import { databaseUrl } from "./testing/test-location.js";
import { TlsProxy } from "./testing/tls-proxy.js";

describe("TLS files named in an address of MongoDB", () => {
  let serverUrl: string;
  let proxy: TlsProxy;
  let url: string;
  let errors: string[];
  let reasons: Error[];
  const log: Logger = { ...silentLogger, error: (_, text) => errors.push(text) };

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    serverUrl = found.url;
  });

  beforeEach(async () => {
    [errors, reasons] = [[], []];
    proxy = await TlsProxy.start(serverUrl);
    url = `${databaseUrl(proxy.url)}&serverSelectionTimeoutMS=2000`;
  });

  afterEach(() => proxy?.[Symbol.asyncDispose]());

  const watch = () => watchStorageTls(url, log, (reason) => reasons.push(reason));

  it("end the process once when they change, with a reason that names them and the next step", async () => {
    const watched = await watch();
    expect(reasons).to.deep.equal([]);
    await proxy.renew();
    await eventually(() => expect(reasons).to.have.length(1));
    expect(reasons[0]).to.be.instanceOf(UnavailableError);
    expect(reasons[0]?.message)
      .to.contain(proxy.files.pair)
      .and.contain("its next start uses the new files")
      .and.not.contain(proxy.files.ca);
    await proxy.renew();
    WatchedFiles.readAll();
    await new Promise(setImmediate);
    expect([reasons.length, errors]).to.deep.equal([1, []]);
    watched.close();
  });

  it("are not used while they are damaged or refused by the database, and the log names them and the reason", async () => {
    const watched = await watch();
    const pair = readFileSync(proxy.files.pair, "utf8");
    const refused = async (change: () => unknown, ...said: readonly string[]) => {
      errors = [];
      await change();
      await eventually(() => expect(errors.join()).to.not.equal(""));
      for (const text of [...said, "TLS file change rejected"]) expect(errors[0]).to.contain(text);
    };
    await refused(() => proxy.put("pair", pair.slice(0, -200)), `tlsCertificateKeyFile ${proxy.files.pair}`);
    const other = await createAuthority({ commonName: "other", validDays: 1 });
    await refused(() => proxy.renew(other), "have changed", "cannot be reached");
    await refused(() => proxy.put("ca", other.certPem), "have changed", "cannot be reached");
    expect(reasons).to.deep.equal([]);
    proxy.put("ca", proxy.authority.certPem);
    await proxy.renew();
    await eventually(() => expect(reasons).to.have.length(1));
    watched.close();
  });

  it("are named at the start when they cannot be read or used", async () => {
    const missing = url.replace("ca.pem", "missing.pem");
    proxy.put("pair", proxy.authority.certPem);
    for (const start of [connectToMongo, (each: string) => watchStorageTls(each, log, () => {})]) {
      await rejection(start(missing), UnavailableError, /tlsCAFile .*cannot read the TLS file .*missing\.pem/);
      await rejection(start(url), UnavailableError, /tlsCertificateKeyFile .*pair\.pem.* has no usable certificate/);
    }
  });
});
