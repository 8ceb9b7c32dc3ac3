import type { AcknowledgedCopy, Confirmed, World } from "./parts.js";
import type { SimProcess } from "./seed/timeline.js";
import { restored, SimStore, type StoreCopy } from "./store.js";

/** State of the registry at one moment, and the acknowledgements until then. */
interface Backup {
  readonly store: StoreCopy;
  readonly acknowledged: AcknowledgedCopy;
  readonly confirmed: Confirmed;
}

/**
 * Rewinds the registry to an earlier state while its agents continue and remember later orders. Each rewind begins a
 * new history: a store with the states that registries commit to it. The latest history is the current one.
 */
export class Rewinds {
  readonly #backups: Backup[] = [];
  /** Stores of other histories that still have running registries. */
  readonly #rivals = new Set<SimStore>();
  /** Store of each registry process. */
  readonly #storeOf = new WeakMap<SimProcess, SimStore>();
  /** Number of each history, in the order of their beginnings. */
  readonly #epochs = new WeakMap<SimStore, number>();
  #count = 0;
  /** Hosts that have registered since the last rewind. */
  readonly #registered = new Set<string>();

  constructor(private readonly world: World) {}

  /** Number of rewinds that led to the current history. */
  get epoch(): number {
    return this.#count;
  }

  /** Records that a registry process begins with the contents of a store. */
  began(process: SimProcess, store: SimStore): void {
    this.#storeOf.set(process, store);
  }

  /** Returns the store of a registry process; for another process the current store. */
  storeOf(process: SimProcess): SimStore {
    return this.#storeOf.get(process) ?? this.world.store;
  }

  /** Returns the number of a registry process's history; for another process that of the current history. */
  epochOf(process: SimProcess): number {
    return this.#epochs.get(this.storeOf(process)) ?? 0;
  }

  /** Returns whether only one history has running registries. */
  get isAlone(): boolean {
    return this.#rivals.size === 0;
  }

  /** Returns whether the store has a running registry. */
  isKept(store: SimStore): boolean {
    return store === this.world.store || this.#rivals.has(store);
  }

  hasRegistered(host: string): void {
    this.#registered.add(host);
  }

  /** Returns whether the registry cannot know yet what the host's agent remembers. */
  isUnheard(host: string): boolean {
    return this.#count > 0 && !this.#registered.has(host);
  }

  betweenSteps(): void {
    const { random, faults } = this.world;
    if (random.chance(faults.backup)) this.backUp();
    if (random.chance(faults.rewind)) this.goBack();
  }

  /** Rewinds to the last backup or an earlier one, in the way that this run's faults select. */
  goBack(): void {
    const { random, faults, store } = this.world;
    const isCopied = random.chance(faults.copiedBack);
    // Agents refuse a copied folder of a former incarnation. A restore of such a backup is a sibling of the present
    // incarnation, and an operator has it adopt the agents. An operator's choice between several running siblings is
    // not simulated.
    const isUsable = ({ claim }: StoreCopy) => claim.incarnation === store.incarnation || (!isCopied && this.isAlone);
    const usable = this.#backups.filter((each) => isUsable(each.store));
    const last = usable.at(-1);
    if (last === undefined) return;
    const backup = random.chance(0.5) ? last : random.pick(usable);
    if (isCopied) this.#goBack(backup, "its folder is copied back", { restores: false });
    else if (random.chance(faults.rival) && this.isAlone) this.#leaveBehind(backup);
    else this.#goBack(backup, "restored from a backup", { restores: true });
  }

  /** Stops all registries of former histories. */
  stop(): void {
    this.#rivals.clear();
    for (const node of this.world.registries()) if (!this.isKept(node.store)) this.world.endRegistry(node);
  }

  backUp(): void {
    const { store, acknowledged, orders } = this.world;
    this.#backups.push({ store: store.copy(), acknowledged: acknowledged.copy(), confirmed: orders.copy() });
    this.world.trace(`backup ${this.#backups.length} of generation ${store.generation}`);
  }

  #goBack(backup: Backup, how: string, { restores }: { readonly restores: boolean }): void {
    const { world } = this;
    world.trace(`registry: ${how}, of generation ${backup.store.claim.generation}`);
    const before = world.store;
    this.#replace(backup, restores);
    for (const node of world.registries()) if (node.store === before) world.endRegistry(node);
    const { store } = world;
    world.timeline.after(world.random.between(10, 3_000), undefined, "restored", () => {
      if (store === world.store && !world.registries().some((node) => node.store === store)) world.startRegistry();
    });
  }

  /** Restores a backup as another registry, and leaves the former one running. */
  #leaveBehind(backup: Backup): void {
    const { world } = this;
    world.trace(`registry: restored elsewhere, of generation ${backup.store.claim.generation}; the former one runs on`);
    const before = world.store;
    this.#replace(backup, true);
    this.#rivals.add(before);
    world.startRegistry();
  }

  #replace(backup: Backup, restores: boolean): void {
    const { world } = this;
    this.#count += 1;
    this.#registered.clear();
    const copy = restores ? restored(backup.store, `incarnation-${this.#count + 1}`) : backup.store;
    const before = world.store;
    // Applies further commits of the former store's registries without checking them.
    before.onCommit = (_, apply) => apply();
    world.store = new SimStore(copy);
    this.#epochs.set(world.store, this.#count);
    world.state.watch(world.store);
    world.acknowledged.rewind(backup.acknowledged);
    world.orders.rewind(backup.confirmed);
    world.lives.rewind(before, world.store);
  }
}
