import { existsSync } from "node:fs";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Network } from "../namespaces/network.js";
import { type AwayScene, BLOCK_BYTES, CONTROLS, HOSTS, PATIENCE } from "./away-scene.js";
import type { DocumentedMesh } from "./documented-mesh.js";
import type { Unit } from "./unit.js";
import { WatchedHosts } from "./watched-hosts.js";

export interface CutOff {
  readonly scene: AwayScene;
  readonly mesh: DocumentedMesh;
  readonly network: Network;
}

/** Times in ms within which, according to the document, a cut is noticed. */
const SAID = { grpcMs: 30_000, natsMs: 15_000, hostMs: 10_000 };
/**
 * Factor by which a busy machine may exceed the times of `SAID`. Without keepalives a cut would be noticed after a
 * quarter of an hour.
 */
const TIMES_SAID = 3;
const NATS = [...CONTROLS, "control-3"] as const;

/**
 * Proof of each row, by the document's name of the part that is away. A machine's link is cut, and no packet reports
 * that.
 */
export const CUT_OFF: Readonly<Record<string, (cut: CutOff) => Promise<void>>> = {
  "one NATS server": async (cut) => {
    const { scene, mesh } = cut;
    const clients = [
      ...CONTROLS.map((machine) => ({ machine, unit: scene.unit(machine, "director") })),
      ...HOSTS.map((machine) => ({ machine, unit: scene.unit(machine, "disk-agent") })),
    ];
    // A machine can always reach itself.
    const clientsOf = (server: (typeof NATS)[number]) =>
      clients.filter(
        ({ machine, unit }) => machine !== server && natsServerOf(unit) === `${mesh.address(server)}:4222`,
      );
    const server = NATS.reduce((most, one) => (clientsOf(one).length > clientsOf(most).length ? one : most));
    for (const service of ["disk-registry", "director"]) await leadElsewhere(scene, service, server);
    const leaving = clientsOf(server).length;
    expect(leaving).to.be.above(0);
    await without(cut, server, async (cutAtMs) => {
      await eventually(() => expect(clientsOf(server)).to.deep.equal([]), PATIENCE);
      const tookMs = Date.now() - cutAtMs;
      noticed(`${leaving} clients of NATS left the server`, tookMs, SAID.natsMs);
      await scene.changesAreMade();
    });
  },

  "the leading registry": (cut) =>
    withoutLeader(cut, { service: "disk-registry", other: "director", asked: ["REGISTRY", 7030, "hosts"] }),

  "the leading director": (cut) =>
    withoutLeader(cut, { service: "director", other: "disk-registry", asked: ["DIRECTOR", 7010, "tasks"] }),

  "a host": async (cut) => {
    const { scene } = cut;
    const { serving, socket } = await scene.disk();
    const [, other = ""] = /^worker\/1 +(\S+)/m.exec(await scene.done("diskmesh instances first")) ?? [];
    await scene.stopIo();
    const former = scene.nbd;
    const fresh = Buffer.alloc(BLOCK_BYTES, "written elsewhere");
    let late = Promise.resolve("nothing");
    await using watched = await WatchedHosts.begin(cut.mesh);
    await cutting(cut, serving, async (cutAtMs) => {
      late = former.write(0, Buffer.alloc(BLOCK_BYTES, "too late"), { fua: true }).then(
        () => "written",
        () => "refused",
      );
      noticed(`${serving} was UNAVAILABLE`, (await watched.becomesUnavailable(serving)) - cutAtMs, SAID.hostMs);
      await scene.done(`diskmesh fence-host ${serving} --reason cut-off`);
      await scene.done(`diskmesh detach ${scene.diskName}`);
      await scene.done(`diskmesh provide ${scene.diskName} ${other} --size 1MiB`);
      await scene.openDisk();
      await scene.ioGoesOn();
      await scene.stopIo();
      await scene.nbd.write(0, fresh, { fua: true });
    });
    await scene.allServe();
    expect(await late, "what the former host had still to write").to.equal("refused");
    await eventually(() => expect(existsSync(socket), `${serving} serves the disk`).to.equal(false), PATIENCE);
    await scene.openDisk((found) => expect(found.equals(fresh), "what the other host wrote").to.equal(true));
    await scene.changesAreMade();
    await scene.ioGoesOn();
  },

  "the database": async (cut) => {
    const { scene } = cut;
    await without(cut, "database", () =>
      scene.areRefused(["diskmesh hosts", "diskmesh tasks", "diskmesh add-host host-1"]),
    );
  },
};

interface Led {
  readonly service: string;
  /** Machine that leads meanwhile. */
  readonly other: string;
  /** Calls only the leader: environment variable, port and command. */
  readonly asked: readonly [variable: string, port: number, action: string];
}

/** Cuts off the machine of a leader. The leader must stop leading before another process leads. */
async function withoutLeader(cut: CutOff, { service, other, asked: [variable, port, action] }: Led): Promise<void> {
  const { scene, mesh } = cut;
  const { leader, standby } = await scene.leader(service);
  await leadElsewhere(scene, other, leader);
  // The operator's files can be read on every machine, because machines have only separate networks.
  const files = (await mesh.machine("admin").type("env | grep -E '^DISKMESH_(CA|CERT|KEY)='\n"))
    .trim()
    .split("\n")
    .join(" ");
  await using watched = await WatchedHosts.begin(mesh);
  await without(cut, leader, async (cutAtMs) => {
    const lastAnswer = mesh
      .machine(leader)
      .type(
        [
          "last=0",
          `while begun=$(date +%s%3N); ${files} DISKMESH_${variable}=${mesh.address(leader)}:${port} diskmesh ${action} >/dev/null 2>&1`,
          "do last=$begun; done",
          "echo $last\n",
        ].join("\n"),
      );
    // The promise may be left without a waiter when a later step fails.
    lastAnswer.catch(() => {});
    expect(await scene.leader(service)).to.include({ leader: standby });
    const ledAtMs = ledAtMsOf(scene.unit(standby, service));
    console.log(`      another one led ${inSeconds(ledAtMs - cutAtMs)} after the cut`);
    expect(Number(await lastAnswer), "when the former leader was asked what it answered last").to.be.below(ledAtMs);
    await scene.changesAreMade();
    if (service === "disk-registry")
      noticed("who watched the leader was told", (await watched.ended) - cutAtMs, SAID.grpcMs);
  });
  expect((await scene.leader(service)).leader).to.equal(standby);
}

/** Cuts off a machine while disks are used and changes are made, and connects it again. */
async function without(cut: CutOff, machine: string, meanwhile: (cutAtMs: number) => Promise<void>): Promise<void> {
  const { scene } = cut;
  await cutting(cut, machine, async (cutAtMs) => {
    await scene.ioGoesOn();
    await meanwhile(cutAtMs);
    await scene.ioGoesOn();
  });
  await scene.allServe();
  await scene.changesAreMade();
  await scene.ioGoesOn();
}

async function cutting(
  { network }: CutOff,
  machine: string,
  meanwhile: (cutAtMs: number) => Promise<void>,
): Promise<void> {
  network.setLink(machine, "down");
  await meanwhile(Date.now());
  network.setLink(machine, "up");
}

/** Moves the leadership from a machine to the other one if the machine's process leads. */
async function leadElsewhere(scene: AwayScene, service: string, machine: string): Promise<void> {
  const { leader } = await scene.leader(service);
  if (leader !== machine) return;
  const unit = scene.unit(leader, service);
  await unit.stop();
  await scene.leader(service);
  await unit.start();
  await scene.allServe();
}

/** Returns the NATS server that a process is connected to, from its log. */
function natsServerOf({ logs }: Unit): string | undefined {
  const said = [...logs.matchAll(/"server":"([^"]+)"[^\n]*"(NATS connection opened|NATS connection lost)"/g)].at(-1);
  return said?.[2] === "NATS connection opened" ? said[1] : undefined;
}

/** Returns when a process began to lead, from its log. */
function ledAtMsOf({ logs }: Unit): number {
  const said = [...logs.matchAll(/"time":"([^"]+)"[^\n]*"(?:tabletG|g)eneration":\d+[^\n]*"leadership gained"/g)].at(
    -1,
  );
  return Date.parse(said?.[1] ?? "");
}

const inSeconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

function noticed(what: string, afterMs: number, saidMs: number): void {
  console.log(`      ${what} ${inSeconds(afterMs)} after the cut; the document says ${inSeconds(saidMs)}`);
  expect(afterMs, what).to.be.below(TIMES_SAID * saidMs);
}
