import type { Machine } from "./machine.js";
import type { World } from "./parts.js";
import { REGISTRY_PLACES } from "./registry-node.js";
import { STORE_PLACE } from "./store.js";

/** Injects all faults between two steps, and acts for users of the fleet. */
export class Chaos {
  #stopped = false;
  readonly #actionMs: number;

  constructor(private readonly world: World) {
    this.#actionMs = world.random.pick([20, 60, 200]);
    this.#use();
  }

  stop(): void {
    this.#stopped = true;
    const { world } = this;
    world.network.heal();
    for (const process of this.#processes()) process.pausedUntilMs = 0;
    // Spares the newest registry, because the store accepts no other.
    const leader = world.leader();
    world.rewinds.stop();
    for (const registry of world.registries())
      if (leader !== undefined && registry !== leader) world.endRegistry(registry);
    for (const machine of world.machines())
      for (const [path, drive] of machine.drives)
        if (drive === undefined) machine.plugIn(path, 2 * world.smallestBlocks);
        else while (drive.blocks.length < 2 * world.smallestBlocks) drive.blocks.push(0);
  }

  /** Called before every step. */
  betweenSteps(): void {
    const { world } = this;
    const { random, faults } = world;
    if (random.chance(faults.agentCrash)) {
      const node = random.pick(world.agents());
      const powerLoss = random.chance(faults.powerLoss);
      world.endAgent(node, powerLoss);
      // Swaps drives while the machine is off. Some scenarios allow swaps only here.
      if (powerLoss && random.chance(faults.swapWhileOff))
        this.#swap(node.machine, random.pick(node.machine.ownPaths()));
      if (powerLoss && random.chance(faults.exchangeWhileOff)) this.#exchange(node.machine);
    }
    if (random.chance(faults.registryCrash)) {
      const registries = world.registries();
      if (registries.length > 0) world.endRegistry(random.pick(registries));
    }
    if (random.chance(faults.secondLeader) && world.registries().length < 3) world.startRegistry();
    world.rewinds.betweenSteps();
    if (random.chance(faults.pause)) this.#pause();
    if (random.chance(faults.partition)) this.#partition();
    if (random.chance(faults.hardware)) this.#hardware();
    if (random.chance(faults.cutOff)) this.#cutOff();
  }

  /** Lets the operator request something, and users write. */
  #use(): void {
    const { world } = this;
    world.timeline.after(world.random.between(0, 2 * this.#actionMs), undefined, "use", () => {
      if (this.#stopped) return;
      if (world.random.chance(0.55) || !world.user.act()) world.operator.act();
      this.#use();
    });
  }

  #processes() {
    return [...this.world.agents(), ...this.world.registries()].map((node) => node.process);
  }

  #pause(): void {
    const { random, timeline } = this.world;
    const process = random.pick(this.#processes());
    process.pausedUntilMs = timeline.nowMs + random.between(50, 6_000);
    this.world.trace(`${process.name}: stands still for ${(process.pausedUntilMs - timeline.nowMs).toFixed(0)} ms`);
  }

  #partition(): void {
    const { world } = this;
    const { random, network } = world;
    const places = [...world.hosts, ...REGISTRY_PLACES, STORE_PLACE, "operator"];
    const a = random.pick(places);
    const b = random.pick(places.filter((place) => place !== a));
    network.block(a, b);
    world.trace(`network: ${a} and ${b} are cut off from each other`);
    world.timeline.after(random.between(100, 4_000), undefined, "heal", () => network.unblock(a, b));
  }

  #hardware(): void {
    const { random } = this.world;
    const machine = random.pick(this.world.machines());
    const paths = machine.ownPaths();
    // Mostly swaps drives that no process holds.
    const idle = paths.filter((each) => !machine.isHeld(each));
    const path = random.pick(idle.length > 0 && random.chance(0.7) ? idle : paths);
    if (machine.drives.get(path) === undefined || random.chance(0.6)) {
      this.#swap(machine, path);
    } else {
      machine.drives.set(path, undefined);
      machine.noteTouched();
      this.world.trace(`${machine.host}: nothing is at ${path} any more`);
    }
  }

  #exchange(machine: Machine): void {
    machine.exchange("/dev/a", "/dev/b");
    this.world.trace(`${machine.host}: the drives at /dev/a and /dev/b have changed places`);
  }

  #cutOff(): void {
    const { random } = this.world;
    const machine = random.pick(this.world.machines());
    const path = random.pick(machine.ownPaths());
    machine.cutOff(path);
    this.world.trace(`${machine.host}: what is at ${path} is cut off`);
  }

  #swap(machine: Machine, path: string): void {
    machine.plugIn(path, 2 * this.world.smallestBlocks + this.world.random.pick([0, 0, 1]));
    this.world.trace(`${machine.host}: another drive is at ${path}`);
  }
}
