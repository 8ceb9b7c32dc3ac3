import type { AcknowledgedCopy, Confirmed, World } from "./parts.js";
import { restored, SimStore, type StoreCopy } from "./store.js";
import type { SimProcess } from "./timeline.js";

/** The registry's state at one moment, and the acknowledgements until then. */
interface Backup {
  readonly store: StoreCopy;
  readonly acknowledged: AcknowledgedCopy;
  readonly confirmed: Confirmed;
}

/** The registry goes back to an earlier moment, while its agents stay up and remember what came after it. */
export class Rewinds {
  readonly #backups: Backup[] = [];
  /** Histories that somebody still runs beside the one that counts. */
  readonly #rivals = new Set<SimStore>();
  /** The history that each registry process continues. */
  readonly #storeOf = new WeakMap<SimProcess, SimStore>();
  /** Histories are numbered in the order in which they began. */
  readonly #epochs = new WeakMap<SimStore, number>();
  #count = 0;
  /** Hosts that have registered since. */
  readonly #registered = new Set<string>();

  constructor(private readonly world: World) {}

  /** How often the registry went back so far: of the history that counts. */
  get epoch(): number {
    return this.#count;
  }

  /** A registry process begins with what a store holds. */
  began(process: SimProcess, store: SimStore): void {
    this.#storeOf.set(process, store);
  }

  /** The store of a registry process; of what is not one, the store that counts. */
  storeOf(process: SimProcess): SimStore {
    return this.#storeOf.get(process) ?? this.world.store;
  }

  /** Which history a registry process goes on with; of what is not one, the one that counts. */
  epochOf(process: SimProcess): number {
    return this.#epochs.get(this.storeOf(process)) ?? 0;
  }

  /** Returns true when only one history has running registries. */
  get isAlone(): boolean {
    return this.#rivals.size === 0;
  }

  /** Returns true when the store has a running registry. */
  isKept(store: SimStore): boolean {
    return store === this.world.store || this.#rivals.has(store);
  }

  hasRegistered(host: string): void {
    this.#registered.add(host);
  }

  /** Returns true when the registry cannot know yet what the host's agent remembers. */
  isUnheard(host: string): boolean {
    return this.#count > 0 && !this.#registered.has(host);
  }

  betweenSteps(): void {
    const { random, faults } = this.world;
    if (random.chance(faults.backup)) this.backUp();
    if (random.chance(faults.rewind)) this.goBack();
  }

  /** To the last backup or an earlier one, in the way that this run's faults know. */
  goBack(): void {
    const { random, faults, store } = this.world;
    const isCopied = random.chance(faults.copiedBack);
    // Agents ignore the folder of a former incarnation. A restore of it is a sibling of the present one, and an
    // operator has it adopt their agents. Which of several running siblings an operator chooses is not simulated.
    const isUsable = ({ claim }: StoreCopy) => claim.incarnation === store.incarnation || (!isCopied && this.isAlone);
    const usable = this.#backups.filter((each) => isUsable(each.store));
    const last = usable.at(-1);
    if (last === undefined) return;
    const backup = random.chance(0.5) ? last : random.pick(usable);
    if (isCopied) this.#goBack(backup, "its folder is copied back", { restores: false });
    else if (random.chance(faults.rival) && this.isAlone) this.#leaveBehind(backup);
    else this.#goBack(backup, "restored from a backup", { restores: true });
  }

  /** Nobody runs the old ones any more. */
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

  /** A registry is restored elsewhere, and the former one is left running. */
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
    // Commits that the dead store's registries still make concern nobody.
    before.onCommit = (_, apply) => apply();
    world.store = new SimStore(copy);
    this.#epochs.set(world.store, this.#count);
    world.state.watch(world.store);
    world.acknowledged.rewind(backup.acknowledged);
    world.orders.rewind(backup.confirmed);
    world.lives.rewind(before, world.store);
  }
}
