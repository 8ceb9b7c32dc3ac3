import { X509Certificate } from "node:crypto";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { runCommandLine } from "@diskmesh/cli";
import { connectNats, type NatsConnection } from "@diskmesh/mbus";
import { certificateFiles, identifiedKey } from "@diskmesh/pki";
import { eventually, type NatsServer, startNats, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";

describe("diskmesh pki and nats-config", () => {
  const folder = temporaryFolder();
  const [pki, nats, list] = [join(folder, "pki"), join(folder, "nats"), join(folder, "mesh.list")];
  const connections: NatsConnection[] = [];
  let server: NatsServer | undefined;
  after(async () => {
    await Promise.all(connections.map((connection) => connection.close()));
    await server?.kill();
  });

  async function typed(...words: string[]): Promise<string> {
    const [out, err] = [new PassThrough(), new PassThrough()];
    const args = [...words, "--folder", pki];
    const { signal } = new AbortController();
    const code = await runCommandLine(args, { out, err, environment: {}, workingFolder: folder, signal });
    expect(code, String(err.read())).to.equal(0);
    return String(out.read());
  }

  async function connect(name: string): Promise<NatsConnection> {
    const connection = await connectNats({
      servers: [server?.address ?? ""],
      tls: certificateFiles(pki, name),
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
});
