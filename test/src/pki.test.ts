import { X509Certificate } from "node:crypto";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectNats, type NatsConnection } from "@diskmesh/mbus";
import { certificateFiles, identifiedKey } from "@diskmesh/pki";
import { eventually, type NatsServer, startNats, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { typeCommand } from "./mesh/type-command.js";

describe("diskmesh pki and nats-config", () => {
  const folder = temporaryFolder();
  const [pki, nats, list] = [join(folder, "pki"), join(folder, "nats"), join(folder, "mesh.list")];
  const connections: NatsConnection[] = [];
  let server: NatsServer | undefined;
  after(async () => {
    await Promise.all(connections.map((connection) => connection.close()));
    await server?.kill();
  });

  const run = (...args: string[]) => typeCommand(args, {}, folder);

  async function typed(...words: string[]): Promise<string> {
    const { code, out, err } = await run(...words, "--folder", pki);
    expect(code, err).to.equal(0);
    return out;
  }

  async function connect(name: string, within = pki): Promise<NatsConnection> {
    const connection = await connectNats({
      servers: [server?.address ?? ""],
      tls: certificateFiles(within, name),
      name,
      reconnect: { stepMs: 20, maxMs: 200 },
    });
    connections.push(connection);
    return connection;
  }

  it("a new host is let in without an edit by hand, one that is revoked loses its connection, others keep theirs", async () => {
    writeFileSync(list, "nats localhost 127.0.0.1\ndirector\ndisk-agent/host-1\noperator/alice\n");
    const pidFile = join(nats, "nats-server.pid");
    const make = () => typed("pki", "make", "--list", list);
    expect(await make()).to.match(/^disk-agent-host-1\s+made$/m);
    expect(await typed("nats-config", nats)).to.contain("2 users; have nats-server read them again");
    const certs = { folder: pki, files: (name: string) => certificateFiles(pki, name) };
    server = await startNats({ folder, certs, users: [], usersFolder: nats });
    const director = await connect("director");
    const first = await connect("disk-agent-host-1");
    await eventually(() => director.isConnected && first.isConnected);
    const losses: string[] = [];
    director.onDisconnected(() => losses.push("director"));

    appendFileSync(list, "disk-agent/host-2\n");
    expect(await make()).to.match(/^disk-agent-host-2\s+made$/m);
    const second = await connect("disk-agent-host-2");
    expect(await typed("nats-config", nats, "--pid-file", pidFile)).to.contain("3 users, and was told");
    await eventually(() => second.isConnected);

    expect(await typed("pki", "revoke", "disk-agent-host-1")).to.contain("revoked 1 certificates of disk-agent-host-1");
    await typed("nats-config", nats, "--pid-file", pidFile);
    await eventually(() => !first.isConnected);
    expect(await typed("pki", "list")).not.to.contain("host-1");
    expect(losses).to.deep.equal([]);
    expect(second.isConnected).to.equal(true);

    // Whoever has the former key has a connection that stands; the host itself comes with the new one.
    second.onDisconnected(() => losses.push("second"));
    await typed("pki", "revoke", "disk-agent-host-2");
    await make();
    await typed("nats-config", nats, "--pid-file", pidFile);
    await eventually(() => expect(losses).to.deep.equal(["second"]));
    await eventually(() => second.isConnected);
    expect(director.isConnected).to.equal(true);
  });

  it("files that are copied to the servers of a cluster name each other's keys, and paths as they are there", async () => {
    const copied = join(folder, "copied");
    const certificate = new X509Certificate(readFileSync(certificateFiles(pki, "nats").certFile));
    await typed("nats-config", copied, "--installed-in", "/etc/nats/diskmesh");
    const [clients, cluster] = ["tls.conf", "cluster-tls.conf"].map((name) => readFileSync(join(copied, name), "utf8"));
    for (const text of [clients, cluster]) expect(text).to.contain('ca_file: "/etc/nats/diskmesh/ca.pem"');
    const { pin } = identifiedKey(certificate);
    expect(cluster).to.contain("verify: true").and.contain(pin);
    expect(clients).not.to.contain(pin);
    const reader = new X509Certificate(readFileSync(certificateFiles(pki, "director").certFile));
    expect(cluster).not.to.contain(identifiedKey(reader).pin);
  });

  it("of a mesh in which nobody may come to NATS -> lets in nobody, rather than everybody", async () => {
    const [operators, told] = [join(folder, "operators"), join(folder, "nobody")];
    writeFileSync(join(folder, "operators.list"), "nats localhost 127.0.0.1\noperator-reader/bob\n");
    const made = ["--folder", operators, "--list", join(folder, "operators.list")];
    expect((await run("pki", "make", ...made)).code).to.equal(0);
    expect((await run("nats-config", told, "--folder", operators)).out).to.contain("0 users");
    const certs = { folder: operators, files: (name: string) => certificateFiles(operators, name) };
    await server?.kill();
    server = await startNats({ folder, certs, users: [], usersFolder: told });
    const reader = await connect("operator-reader-bob", operators);
    const whys: string[] = [];
    reader.onChange((why) => whys.push(why ?? "it is let in"));
    await eventually(() => expect(whys).to.have.lengthOf.above(2));
    expect(whys).not.to.contain("it is let in");
  });

  const WRONG: readonly (readonly [args: readonly string[], said: RegExp])[] = [
    [["pki", "make", "--folder", ""], /^diskmesh: --folder is empty/],
    [["pki", "make", "--folder", "pki", "--list", "."], /cannot read the list of holders "[^"]+": EISDIR/],
    [["nats-config", "", "--folder", "pki"], /^diskmesh: <folder> is empty/],
    [["nats-config", "pki", "--folder", "./pki"], /pki" has the keys of everybody/],
  ];
  for (const [args, said] of WRONG)
    it(`${args.map((arg) => arg || '""').join(" ")} -> ${said.source}`, async () => {
      const { code, err } = await run(...args);
      expect(err).to.match(said);
      expect(code).to.equal(2);
    });
});
