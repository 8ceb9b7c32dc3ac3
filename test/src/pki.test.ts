import { X509Certificate } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectNats, type NatsConnection, openCalloutIssuer } from "@diskmesh/mbus";
import { certificateFiles, identifiedKey, openAgentAuthority, openHostAuthority } from "@diskmesh/pki";
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
      reconnect: { minDelayMs: 20, maxDelayMs: 200 },
    });
    connections.push(connection);
    return connection;
  }

  it("make files with which nats-server admits the director, and asks it about all other clients", async () => {
    writeFileSync(list, "nats localhost 127.0.0.1\ndirector\ndisk-agent/host-1\noperator/alice\n");
    expect(await typed("pki", "make", "--list", list)).to.match(/^disk-agent-host-1\s+made$/m);
    expect(await typed("nats-config", nats))
      .to.contain("auth-callout.conf")
      .and.contain("reload nats-server: nats-server --signal reload");
    expect(await typed("nats-config", nats)).to.contain("no file has changed");
    const certs = { folder: pki, files: (name: string) => certificateFiles(pki, name) };
    const [authFile, caFile] = [join(nats, "auth-callout.conf"), join(nats, "ca.pem")];
    server = await startNats({ folder, certs, users: [], authFile, caFile });
    const director = await connect("director");
    await eventually(() => director.isConnected);
    const host = await connect("disk-agent-host-1");
    const whys: string[] = [];
    host.onChange((why) => whys.push(why ?? "it is let in"));
    await eventually(() => expect(whys).to.have.lengthOf.above(1));
    expect(whys).not.to.contain("it is let in");

    const issuer = await openCalloutIssuer(join(pki, "nats-issuer.seed"), { makes: false });
    expect(readFileSync(authFile, "utf8")).to.contain(`issuer: "${issuer.getPublicKey()}"`);
  });

  it("make an authority of joined hosts, by the mesh's authority and for hosts alone", async () => {
    expect(await typed("pki", "host-authority")).to.contain("hosts-ca*.pem");
    const file = (name: string) => join(pki, "hosts", name);
    const files = { certFile: file("hosts-ca.pem"), keyFile: file("hosts-ca-key.pem") };
    const certificate = new X509Certificate((await openHostAuthority(files)).certPem);
    const mesh = new X509Certificate(readFileSync(join(pki, "ca.pem")));
    expect(certificate.verify(mesh.publicKey)).to.equal(true);
    expect(statSync(files.keyFile).mode & 0o777).to.equal(0o600);
    expect((await run("pki", "host-authority", "more", "--folder", pki)).err).to.contain("takes no names");
  });

  it("make nats-server trust another authority and that of agents", async () => {
    const agents = join(folder, "agents");
    const files = { certFile: join(agents, "ca.pem"), keyFile: join(agents, "ca-key.pem") };
    const { certPem } = await openAgentAuthority(files, { makes: true });
    await typed("pki", "replace-authority");
    await typed("nats-config", nats, "--agents-ca", files.certFile);
    const trusted = readFileSync(join(nats, "ca.pem"), "utf8");
    expect(trusted.match(/BEGIN CERTIFICATE/g)).to.have.length(3);
    expect(trusted).to.contain(certPem.trim());
  });

  it("make files of a cluster's servers that name each other's keys, and paths as they are there", async () => {
    const copied = join(folder, "copied");
    const certificate = new X509Certificate(readFileSync(certificateFiles(pki, "nats").certFile));
    await typed("nats-config", copied, "--installed-in", "/etc/nats/diskmesh");
    const cluster = readFileSync(join(copied, "cluster-tls.conf"), "utf8");
    expect(cluster).to.contain('ca_file: "/etc/nats/diskmesh/ca.pem"');
    const { pin } = identifiedKey(certificate);
    expect(cluster).to.contain("verify: true").and.contain(pin);
    const reader = new X509Certificate(readFileSync(certificateFiles(pki, "director").certFile));
    expect(cluster).not.to.contain(identifiedKey(reader).pin);
  });

  const WRONG: readonly (readonly [args: readonly string[], said: RegExp])[] = [
    [["pki", "make", "--folder", ""], /^diskmesh: --folder is empty/],
    [["pki", "make", "--folder", "pki", "--list", "."], /cannot read the list of holders "[^"]+": EISDIR/],
    [["nats-config", "", "--folder", "pki"], /^diskmesh: <folder> is empty/],
    [["nats-config", "pki", "--folder", "./pki"], /pki" contains all keys of the mesh/],
  ];
  for (const [args, said] of WRONG)
    it(`${args.map((arg) => arg || '""').join(" ")} -> ${said.source}`, async () => {
      const { code, err } = await run(...args);
      expect(err).to.match(said);
      expect(code).to.equal(2);
    });
});
