import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { connectNats } from "@diskmesh/mbus";
import { createDevelopmentCertificates } from "@diskmesh/pki";
import { eventually, freePort, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { HOSTS, MeshLayout } from "./layout.js";
import { writeNatsConfig } from "./nats-config.js";

describe("the configuration of nats-server", () => {
  let layout: MeshLayout;

  before(async () => {
    layout = new MeshLayout(temporaryFolder(), (await freePort()) - 50);
    await createDevelopmentCertificates(layout.certFolder, { hostIds: HOSTS.map(({ hostId }) => hostId) });
    mkdirSync(dirname(layout.configFile("any")), { recursive: true });
    await writeNatsConfig(layout);
  });

  it("admits the director, and others only by a director's answer", async () => {
    await using _server = await start();
    expect(await isLetIn("director")).to.equal(true);
    for (const name of ["disk-agent-host-1", "operator", "disk-registry"])
      expect(await isLetIn(name), name).to.equal(false);
  });

  async function start(): Promise<AsyncDisposable> {
    const file = layout.configFile("nats-server", "conf");
    const child = spawn("nats-server", ["--config", file], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk) => {
      said += chunk;
    });
    await eventually(() => expect(said).to.contain("Server is ready"));
    return {
      [Symbol.asyncDispose]: async () => {
        child.kill("SIGKILL");
        await once(child, "exit");
      },
    };
  }

  async function isLetIn(certificate: string): Promise<boolean> {
    const lines: string[] = [];
    const line = (_: object, message: string) => lines.push(message);
    const nats = await connectNats({
      servers: [layout.natsAddress],
      tls: layout.tlsFiles(certificate),
      name: certificate,
      reconnect: { minDelayMs: 60_000, maxDelayMs: 60_000 },
      log: { debug: line, info: line, warn: line, error: line },
    });
    try {
      const isDecided = () => nats.isConnected || lines.includes("NATS connection failed");
      await eventually(isDecided);
      return nats.isConnected;
    } finally {
      await nats.close();
    }
  }
});
