import { messageOf } from "@diskmesh/domain";
import { BLOCK_BYTES, blockOf, writeNumberOf } from "./machine.js";
import type { AgentRun, Served, World } from "./parts.js";

/** Reads and writes disks block by block on the hosts that serve them, as a file system would. */
export class DiskUser {
  /** Blocks with a write in progress. A user waits for its answer before the next write to the block. */
  readonly #busy = new Set<string>();

  constructor(private readonly world: World) {}

  /** Writes or reads once. Returns whether there was a disk to use. */
  act(): boolean {
    const { world } = this;
    const nodes = world.agents().filter((node) => node.process.alive && node.served.size > 0);
    if (nodes.length === 0) return false;
    const node = world.random.pick(nodes);
    const served = world.random.pick([...node.served.values()]);
    const block = world.random.below(served.sizeBytes / BLOCK_BYTES);
    if (world.random.chance(0.2)) void this.#read(node, served, block);
    else void this.#write(node, served, block);
    return true;
  }

  async #read(node: AgentRun, served: Served, block: number): Promise<void> {
    const { world } = this;
    const { diskId, disk } = served;
    const session = node.context?.exports.list().find((entry) => entry.diskId === diskId)?.sessionNumber;
    if (session === undefined || served.closed || !node.process.alive) return;
    const life = world.lives.ofExport(node.machine.host, diskId, session);
    try {
      const atLeast = world.bytes.lastAcknowledged(life, block);
      const data = await disk.read(block * BLOCK_BYTES, BLOCK_BYTES);
      world.bytes.requireRead({ life, block, contents: writeNumberOf(data), atLeast });
    } catch (error) {
      world.trace(`user on ${node.machine.host}: reading block ${block} of ${diskId} failed: ${messageOf(error)}`);
    }
  }

  async #write(node: AgentRun, served: Served, block: number): Promise<void> {
    const { world } = this;
    const { diskId, disk } = served;
    // Includes the agent's run in the key, because each run of the agent has its own users.
    const place = `${node.process.name} ${diskId} ${block}`;
    const session = node.context?.exports.list().find((entry) => entry.diskId === diskId)?.sessionNumber;
    if (session === undefined || served.closed || !node.process.alive || this.#busy.has(place)) return;
    this.#busy.add(place);
    const life = world.lives.ofExport(node.machine.host, diskId, session);
    const write = world.bytes.begin(diskId, session, block, life);
    world.trace(
      `user on ${node.machine.host}: write ${write.number} to block ${block} of ${diskId}, session ${session}`,
    );
    try {
      await disk.write(block * BLOCK_BYTES, blockOf(write.number), world.random.chance(0.3));
      world.bytes.acknowledge(write);
      world.trace(`user on ${node.machine.host}: write ${write.number} is there`);
      // Often rewrites the block that was just written.
      if (world.random.chance(0.5))
        world.timeline.after(
          world.random.between(1, 50),
          undefined,
          "again",
          () => void this.#write(node, served, block),
        );
    } catch (error) {
      world.trace(`user on ${node.machine.host}: write ${write.number} failed: ${messageOf(error)}`);
    } finally {
      this.#busy.delete(place);
    }
  }
}
