import { X509Certificate } from "node:crypto";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Logger, silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { openEventLog } from "../open-storage.js";
import { table } from "../schema.js";
import { Tablet } from "../tablet.js";
import { connectToMongo } from "./driver-server.js";
import { openMongoStorage } from "./open-mongo.js";
import { documentDatabase } from "./testing/document-database.js";
import { databaseUrl, newTabletName, removeTablet } from "./testing/test-location.js";
import { TlsProxy } from "./testing/tls-proxy.js";

interface Counter {
  readonly id: string;
  readonly n: number;
}

const schema = { counters: table<Counter>()({ key: ({ id }) => id }) };
const WRITERS = 4;
const PATIENCE = { timeoutMs: 120_000 };

describe("the TLS files that an address of MongoDB names", function () {
  this.timeout(400_000);
  let serverUrl: string;
  let [authority, other]: KeyPair[] = [];
  let tabletName: string;
  let files: { readonly ca: string; readonly pair: string };
  const lines: string[] = [];
  const note = (_fields: object, text: string) => lines.push(text);
  const log: Logger = { ...silentLogger, warn: note, error: note };

  before(async function () {
    leaveToVerify(this);
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    serverUrl = found.url;
    authority = await createAuthority({ commonName: "one", validDays: 1 });
    other = await createAuthority({ commonName: "two", validDays: 1 });
  });

  beforeEach(() => {
    lines.length = 0;
    tabletName = newTabletName();
    const folder = mkdtempSync(join(temporaryFolder(), "tls-"));
    files = { ca: join(folder, "ca.pem"), pair: join(folder, "pair.pem") };
  });

  afterEach(async () => {
    if (serverUrl !== undefined) await removeTablet(databaseUrl(serverUrl), tabletName);
  });

  const issue = (by: KeyPair | undefined, usage: "server" | "client") =>
    issueCertificate(by as KeyPair, {
      identity: { role: "director", name: "" },
      commonName: usage,
      dnsNames: [],
      ipAddresses: ["127.0.0.1"],
      validDays: 1,
      usages: [usage],
    });

  const put = (path: string, text: string) => {
    writeFileSync(`${path}.next`, text);
    renameSync(`${path}.next`, path);
  };
  const trust = (...authorities: readonly (KeyPair | undefined)[]) =>
    put(files.ca, authorities.map((one) => one?.certPem).join(""));
  /** Returns the serial number. */
  const show = ({ certPem, keyPem }: KeyPair): string => {
    put(files.pair, keyPem + certPem);
    return new X509Certificate(certPem).serialNumber;
  };

  async function startProxy(): Promise<TlsProxy> {
    const pair = await issue(authority, "server");
    return TlsProxy.start({ targetUrl: serverUrl, pair, authorities: [authority as KeyPair] });
  }

  const urlOf = ({ port }: TlsProxy) =>
    `mongodb://127.0.0.1:${port}/diskmesh_test?directConnection=true&tls=true&tlsCAFile=${encodeURIComponent(files.ca)}&tlsCertificateKeyFile=${encodeURIComponent(files.pair)}`;

  function open(url: string): Promise<Tablet<typeof schema>> {
    const storage = openMongoStorage({ url, tabletName, log });
    return Tablet.open({ name: tabletName, schema, storage, address: "127.0.0.1:1" });
  }

  const takenUp = () => lines.filter((line) => line.includes("changed, and in use from now on")).length;

  it("renewed twice under load, then by another authority -> no commit fails or is doubled, and the lease is kept", async () => {
    await using proxy = await startProxy();
    trust(authority);
    const serials = [show(await issue(authority, "client"))];
    const tablet = await open(urlOf(proxy));
    const events = openEventLog(urlOf(proxy), tabletName, log);
    const load = new Load(tablet, (line) => events.append("load", [line]));
    const { generation } = tablet;
    /** Of the tablet and of the event log. */
    const changed = async (change: () => unknown) => {
      await load.anotherRound();
      const before = takenUp();
      await change();
      await eventually(() => expect(takenUp(), lines.join("\n")).to.equal(before + 2), PATIENCE);
      await load.anotherRound();
    };
    const renewed = async (by: KeyPair | undefined) => {
      const former = serials.at(-1) as string;
      await changed(async () => serials.push(show(await issue(by, "client"))));
      await eventually(() => proxy.connectionsWith(former) === 0, PATIENCE);
      expect(proxy.connectionsWith(serials.at(-1) as string)).to.be.above(0);
      proxy.refuse(former);
      await load.anotherRound();
    };
    await renewed(authority);
    await renewed(authority);
    await changed(() => trust(authority, other));
    proxy.become(await issue(other, "server"), [authority as KeyPair, other as KeyPair]);
    await renewed(other);
    await changed(() => trust(other));
    const acknowledged = await load.end();
    expect(load.failures).to.deep.equal([]);
    // A lost answer would have made it claim again.
    expect(tablet.generation).to.equal(generation);
    expect((await events.read("load", { from: 0, limit: 100_000 })).lines).to.deep.equal(load.lines);
    await Promise.all([tablet.close(), events.close()]);
    const again = await open(urlOf(proxy));
    expect(await again.read(({ counters }) => [...counters.entries()].map(({ n }) => n))).to.deep.equal(acknowledged);
    await again.close();
  });

  it("changed while an operation is under way -> that ends where it began, and others do not wait for it", async () => {
    await using proxy = await startProxy();
    trust(authority);
    const former = show(await issue(authority, "client"));
    const server = await connectToMongo(urlOf(proxy), undefined, log);
    const collection = `${tabletName}.log`;
    const release = proxy.holdAnswersTo("held");
    let isAnswered = false;
    const held = server.insert(collection, { _id: "held" }).finally(() => {
      isAnswered = true;
    });
    show(await issue(authority, "client"));
    await eventually(() => takenUp() === 1, PATIENCE);
    expect(await server.insert(collection, { _id: "meanwhile" })).to.equal(true);
    expect(isAnswered).to.equal(false);
    expect(proxy.connectionsWith(former)).to.be.above(0);
    release();
    expect(await held).to.equal(true);
    await eventually(() => proxy.connectionsWith(former) === 0, PATIENCE);
    await server.close();
  });

  it("that are torn, or that the server refuses -> the former stay in use, and the log says which and why", async () => {
    await using proxy = await startProxy();
    trust(authority);
    const former = show(await issue(authority, "client"));
    const tablet = await open(urlOf(proxy));
    const load = new Load(tablet);
    const refused = async (change: () => unknown, ...said: readonly string[]) => {
      lines.length = 0;
      await change();
      await eventually(() => expect(lines.join()).to.not.equal(""), PATIENCE);
      for (const text of [...said, "what was in use before stays so"]) expect(lines[0]).to.contain(text);
      await load.anotherRound();
      expect(proxy.connectionsWith(former)).to.be.above(0);
    };
    const { certPem, keyPem } = await issue(authority, "client");
    await refused(() => put(files.pair, keyPem + certPem.slice(0, 200)), `tlsCertificateKeyFile ${files.pair}`);
    await refused(async () => show(await issue(other, "client")), "cannot be taken up", "cannot be reached");
    await refused(() => trust(other), "cannot be taken up", "certificate");
    lines.length = 0;
    trust(authority);
    const next = show({ certPem, keyPem });
    await eventually(() => proxy.connectionsWith(former) === 0 && proxy.connectionsWith(next) > 0, PATIENCE);
    await load.end();
    expect(load.failures).to.deep.equal([]);
    await tablet.close();
  });

  it("that cannot be read or used at the start -> are named", async () => {
    await using proxy = await startProxy();
    await rejection(open(urlOf(proxy)), UnavailableError, /tlsCAFile .*cannot read the TLS file .*ca\.pem/);
    trust(authority);
    put(files.pair, (await issue(authority, "client")).certPem);
    await rejection(open(urlOf(proxy)), UnavailableError, /tlsCertificateKeyFile .*pair\.pem.* holds no certificate/);
  });
});

/** Writers that never rest, each with a counter of its own. */
class Load {
  readonly failures: unknown[] = [];
  /** What was written beside the tablet. */
  readonly lines: string[] = [];
  readonly #acknowledged = new Array<number>(WRITERS).fill(0);
  readonly #running: Promise<unknown>;
  #isOver = false;

  constructor(
    private readonly tablet: Tablet<typeof schema>,
    private readonly writeLine?: (line: string) => Promise<unknown>,
  ) {
    const writers = this.#acknowledged.map((_, writer) => this.#write(writer));
    if (writeLine !== undefined) writers.push(this.#writeLines());
    this.#running = Promise.all(writers);
  }

  /** Resolves when each writer has been acknowledged something that it began from now on. */
  async anotherRound(): Promise<void> {
    const before = [...this.#acknowledged, this.lines.length];
    const least = this.writeLine === undefined ? WRITERS : WRITERS + 1;
    const ahead = () => [...this.#acknowledged, this.lines.length].filter((n, index) => n >= (before[index] ?? 0) + 2);
    await eventually(() => this.failures.length > 0 || ahead().length >= least, PATIENCE);
  }

  /** What each was acknowledged. */
  async end(): Promise<readonly number[]> {
    this.#isOver = true;
    await this.#running;
    return this.#acknowledged;
  }

  async #write(writer: number): Promise<void> {
    await this.#untilOver(async () => {
      this.#acknowledged[writer] = await this.tablet.transact(({ counters }) => {
        const n = (counters.get(`w${writer}`)?.n ?? 0) + 1;
        counters.put({ id: `w${writer}`, n });
        return n;
      });
    });
  }

  async #writeLines(): Promise<void> {
    await this.#untilOver(async () => {
      const line = `line ${this.lines.length}`;
      await this.writeLine?.(line);
      this.lines.push(line);
    });
  }

  async #untilOver(step: () => Promise<void>): Promise<void> {
    while (!this.#isOver && this.failures.length === 0) await step().catch((error) => this.failures.push(error));
  }
}
