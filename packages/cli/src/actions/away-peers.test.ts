import { readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import { freePort, type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { allActions, runCommandLine } from "../command-line.js";
import { EXIT_CODES } from "../output/exit-codes.js";

/** Actions that call no service. */
const LOCAL = [
  "contexts",
  "cpi",
  "driver",
  "init",
  "new-mesh",
  "rebuild",
  "restore",
  "verify",
  "salvage",
  "pki",
  "nats-config",
  "version",
];
/** Deadlines beside a peer that hangs, and beside one whose absence shows long before on a busy machine. */
const SHORT = { totalDeadlineMs: 2_000, callDeadlineMs: 700 };
const LONG = { totalDeadlineMs: 180_000, callDeadlineMs: 120_000 };
/** Time in ms that a busy machine adds to a deadline. */
const LATE_MS = 120_000;
const ROLES = ["director", "cpi-dispatcher", "disk-registry"] as const;

const { unavailable, unknown } = EXIT_CODES;

interface Peer {
  readonly codes: readonly number[];
  readonly totalDeadlineMs: number;
  readonly callDeadlineMs: number;
  address(role: string): Promise<string>;
}

describe("each action beside peers that are away", () => {
  let certificates: TestCertificates;
  const servers: Server[] = [];
  const sockets: Socket[] = [];
  before(async () => {
    certificates = await testCertificates();
    const file = (name: string) => join(certificates.folder, name);
    writeFileSync(file("volumes.json"), '{"items":[]}');
    for (const name of ["demo.yml", "cloud.yml"]) writeFileSync(file(name), "name: demo\n");
  });
  after(() => {
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
  });

  async function listening(server: Server): Promise<string> {
    servers.push(server);
    server.on("connection", (socket) => sockets.push(socket.on("error", () => {})));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  function silentTls(role: string): Server {
    const { caFile, certFile, keyFile } = certificates.files(role);
    const [ca, cert, key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
    return createTlsServer({ ca, cert, key, requestCert: true, ALPNProtocols: ["h2"] }, (socket) => socket.resume());
  }

  /** Peers by what is wrong with them. A call that a hanging peer does not answer may have been done. */
  const PEERS: Readonly<Record<string, Peer>> = {
    "stopped: nobody listens": { ...LONG, codes: [unavailable], address: async () => `127.0.0.1:${await freePort()}` },
    "absent: nobody has the name": { ...LONG, codes: [unavailable], address: async () => "absent.invalid:7030" },
    "refusing: ends each connection": {
      ...LONG,
      codes: [unavailable],
      address: () => listening(createServer((socket) => socket.destroy())),
    },
    "a service of another role": {
      ...LONG,
      codes: [unavailable],
      address: (role) => listening(silentTls(role === "director" ? "disk-registry" : "director")),
    },
    "hanging: accepts and says nothing, as after SIGSTOP": {
      ...SHORT,
      codes: [unavailable, unknown],
      address: () => listening(createServer()),
    },
    "hanging: silent after the handshake": {
      ...SHORT,
      codes: [unavailable, unknown],
      address: (role) => listening(silentTls(role)),
    },
  };

  for (const [peer, { address, codes, ...deadlines }] of Object.entries(PEERS))
    it(peer, async function () {
      const endsWithinMs = deadlines.totalDeadlineMs + LATE_MS;
      this.timeout(2 * endsWithinMs);
      const [director = "", dispatcher = "", registry = ""] = await Promise.all(ROLES.map(address));
      const { caFile, certFile, keyFile } = certificates.files("operator");
      const environment = {
        ...{ DISKMESH_DIRECTOR: director, DISKMESH_DISPATCHER: dispatcher, DISKMESH_REGISTRY: registry },
        ...{ DISKMESH_CA: caFile, DISKMESH_CERT: certFile, DISKMESH_KEY: keyFile },
      };
      const actions = (await allActions()).filter(({ usage }) => !LOCAL.includes(usage.split(" ")[0] ?? ""));
      const ended = await Promise.all(
        actions.map(async ({ example }) => {
          const [out, err] = [new PassThrough(), new PassThrough()];
          const { folder: workingFolder } = certificates;
          const signal = AbortSignal.timeout(endsWithinMs);
          const code = await runCommandLine(wordsOf(example, workingFolder), {
            ...{ out, err, environment, workingFolder, signal, ...deadlines },
          });
          return { example, code, inTime: !signal.aborted, said: `${err.read() ?? out.read()}` };
        }),
      );
      for (const { example, code, inTime, said } of ended) {
        expect(inTime, `${example} ended in time`).to.equal(true);
        expect(code, `${example}: ${said}`).to.be.oneOf([...codes]);
        expect(said, example).not.to.equal("null");
      }
    });
});

/** Splits an example's arguments as a shell does. Files are those of the test, and waits are short. */
function wordsOf(example: string, folder: string): string[] {
  const words = [...example.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
  const file = /\.(yml|json|backup)$/;
  return words.slice(1).map((word) => (file.test(word) ? join(folder, word) : word === "60" ? "1" : word));
}
