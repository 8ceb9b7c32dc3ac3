import { type DiskId, type HostId, messageOf } from "@diskmesh/domain";
import { fenceSilent } from "../model/disks/fences.js";
import { requireRegistration } from "../model/disks/remembered.js";
import { IS_NOTED, noteWithoutChange } from "../model/events/events.js";
import {
  afterMassSilence,
  endProbation,
  findProven,
  findSilent,
  findSilentDead,
  findSuspected,
  inheritedMassSilence,
  type MassSilence,
  markUnavailable,
  silenceWord,
} from "../model/hosts/heartbeats.js";
import { mayHaveLost, noteLostDisks } from "../model/hosts/lost-disks.js";
import { endMaintenance, lookAtMaintenance } from "../model/hosts/maintenance.js";
import { isStepDue, takeSteps } from "../model/hosts/removal-step.js";
import { giveUpOnHost, removalTimedOut } from "../model/hosts/removal-timeout.js";
import {
  isAnyUnavailable,
  isAnyUncounted,
  listenedBefore,
  massSilenceRan,
  noteListened,
  noteMassSilence,
} from "../model/hosts/vigil.js";
import type { Host, RegistryTables } from "../model/store/schema.js";
import { eventLimits, removalLimits } from "../requests/limits.js";
import type { WorkContext } from "./work-context.js";

/** Maximum delay between a host's timeout and its detection. */
const MAX_LOOK_INTERVAL_MS = 1_000;

/**
 * Maximum listening time in ms that a takeover loses, because it was not recorded yet. The loss delays removal timeouts
 * by the same time.
 */
const MAX_NOTE_INTERVAL_MS = 10_000;

export interface HostEvents {
  /** Called when a host becomes ONLINE, so that waiting work continues. */
  readonly online: (hostId: HostId) => void;
  /** Called when a host becomes UNAVAILABLE, so that work goes on that has waited for its answer. */
  readonly unavailable: (hostId: HostId) => void;
  /** Called when disks were fenced off from their host. */
  readonly fenced: (diskIds: readonly DiskId[]) => void;
  /** Called when facts that are kept in memory only have changed: suspicions of silence, and refused agents. */
  readonly seenOtherwise: (hostIds: readonly HostId[]) => void;
}

/** Finds hosts that fell silent, and removals whose wait for a confirmation has timed out. */
export class HostMonitor {
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #massSilentBefore = 0;
  #mass: MassSilence | undefined;
  #seen: ReadonlyMap<HostId, string> = new Map();
  /** Hosts in maintenance that were silent at the last sweep. */
  #awayInMaintenance: ReadonlySet<HostId> = new Set();
  /** Monotonic time of the last recording of the listening time, in ms. */
  #notedAtMs = 0;

  constructor(
    private readonly context: WorkContext,
    private readonly on: HostEvents = {
      online: () => {},
      unavailable: () => {},
      fenced: () => {},
      seenOtherwise: () => {},
    },
  ) {}

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#sleep(signal);
        await this.look();
      } catch (error) {
        // A lost tablet ends the whole process; after any other error the next sweep tries again.
        if (signal.aborted) continue;
        this.context.log.warn({ error: messageOf(error) }, "silent host check failed, retrying");
      }
    }
  }

  /** Loads the state of the former leader's monitoring. Must run before any timeout or fence. */
  async begin(): Promise<void> {
    const { tablet, clock, config, liveness } = this.context;
    const { timeoutMs, intervalMs } = config.heartbeat;
    const { listenedMs, ranBefore } = await tablet.read((tables) => ({
      listenedMs: listenedBefore(tables),
      ranBefore: massSilenceRan(tables),
    }));
    liveness.goOnFrom(listenedMs);
    this.#notedAtMs = clock.monotonicMs();
    if (ranBefore) this.#mass ??= inheritedMassSilence(timeoutMs, intervalMs, clock.monotonicMs());
    this.#running ??= this.#run();
  }

  /** Records the listening time while any removal timeout runs, and once when it starts. */
  async #noteListened(): Promise<void> {
    const { tablet, clock, config, liveness } = this.context;
    const nowMs = clock.monotonicMs();
    const everyMs = Math.min(MAX_NOTE_INTERVAL_MS, config.unavailableRemovalTimeoutMs / 10);
    const isWanted = nowMs - this.#notedAtMs < everyMs ? isAnyUncounted : isAnyUnavailable;
    if (!(await tablet.read(isWanted))) return;
    this.#notedAtMs = nowMs;
    await tablet.transact((tx) => noteListened(tx, liveness.totalListenedMs));
  }

  async #sleep(signal: AbortSignal): Promise<void> {
    const { clock, config, liveness } = this.context;
    const lookInMs = Math.min(config.heartbeat.intervalMs, MAX_LOOK_INTERVAL_MS);
    const dueAtMs = clock.monotonicMs() + lookInMs;
    await clock.sleep(lookInMs, signal);
    // Excludes the timer's delay from every host's silence: the event loop was busy, and Node runs timers before it
    // reads the heartbeats that arrived meanwhile.
    const deafMs = Math.max(0, Math.round(clock.monotonicMs() - dueAtMs));
    liveness.wasDeaf(deafMs);
  }

  /** Sweeps all hosts once. */
  async look(): Promise<void> {
    await this.#noteListened();
    await this.#endMaintenance();
    const { tablet, liveness, config, clock } = this.context;
    const { timeoutMs } = config.heartbeat;
    const nowMs = clock.nowMs();
    const time = { limits: removalLimits(this.context), nowMs, listenedMs: liveness.totalListenedMs };
    const isTimeoutDue = (tables: RegistryTables, { hostId }: Host): boolean =>
      tables.devices.count("awaitingOrderByHost", hostId) > 0 || isStepDue(tables, hostId, time);
    const silentForMs = (hostId: HostId): number => liveness.silentForMs(hostId);
    const found = await tablet.read((tables) => ({
      seen: this.#inMemory(tables),
      silence: findSilent(tables, silentForMs, config.heartbeat, nowMs),
      silentDead: findSilentDead(tables, silentForMs, timeoutMs),
      proven: findProven(tables, nowMs),
      timedOut: [...tables.hosts.entries()]
        .filter((host) => removalTimedOut(host, time.limits, time.listenedMs))
        .filter((host) => isTimeoutDue(tables, host) || mayHaveLost(tables, host))
        .map((host) => host.hostId),
    }));
    this.#tellSeenOtherwise(found.seen);
    const before = this.#mass;
    const { silence, mass } = afterMassSilence(found.silence, before, timeoutMs, clock.monotonicMs());
    // The mass silence is stored before any action, and cleared after all of them. Otherwise a new leader would fence.
    if (mass !== undefined && before === undefined) await tablet.transact((tx) => noteMassSilence(tx, true, nowMs));
    this.#mass = mass;
    this.#alert(silence.massSilent);
    const { silent } = silence;
    if (silent.length > 0) {
      this.context.log.warn({ hosts: silent.length, first: silent[0] }, "silent hosts marked UNAVAILABLE");
      // Hosts of a mass silence may be healthy and only disconnected, so only an operator fences their disks.
      const fences = before === undefined;
      const { marked, fenced } = await tablet.transact((tx) => {
        // A host that was heard since the sweep began is not marked.
        const stillSilent = silent.filter((hostId) => silentForMs(hostId) > timeoutMs);
        const marked = markUnavailable(tx, stillSilent, timeoutMs, nowMs);
        noteListened(tx, liveness.totalListenedMs);
        const fenced = fences ? fenceSilent(tx, marked, (hostId) => silenceWord(tx, hostId, nowMs)) : [];
        return { marked, fenced };
      });
      if (fenced.length > 0)
        this.context.log.warn({ disks: fenced.length, first: fenced[0] }, "disks of silent hosts fenced");
      this.on.fenced(fenced);
      for (const hostId of marked) this.on.unavailable(hostId);
    }
    if (mass === undefined && before !== undefined) await tablet.transact((tx) => noteMassSilence(tx, false, nowMs));
    if (found.silentDead.length > 0)
      await tablet.transact((tx) => requireRegistration(tx, findSilentDead(tx, silentForMs, timeoutMs)));
    if (found.proven.length > 0) {
      await tablet.transact((tx) => endProbation(tx, found.proven, nowMs));
      for (const hostId of found.proven) this.on.online(hostId);
    }
    for (const hostId of found.timedOut) await this.#giveUp(hostId, nowMs);
  }

  /** Ends maintenance before silent hosts are looked for, so that a host that is still away counts as silent at once. */
  async #endMaintenance(): Promise<void> {
    const { tablet, liveness, config, clock, log } = this.context;
    const isSilent = (hostId: HostId): boolean => liveness.silentForMs(hostId) > config.heartbeat.timeoutMs;
    const { ended, away } = await tablet.read((tables) =>
      lookAtMaintenance(tables, this.#awayInMaintenance, isSilent, clock.nowMs()),
    );
    if (ended.size > 0) await tablet.transact((tx) => endMaintenance(tx, ended));
    this.#awayInMaintenance = away;
    for (const hostId of ended.keys()) {
      log.info({ hostId, isSilent: isSilent(hostId) }, "maintenance of a host ended");
      this.on.online(hostId);
    }
  }

  /** Returns the facts that are kept in memory only, by host, as texts to compare. */
  #inMemory(tables: RegistryTables): ReadonlyMap<HostId, string> {
    const { liveness, refusedAgents } = this.context;
    const { standsStill = "" } = this.context.fleet;
    const found = new Map<HostId, string>();
    const add = (hostId: HostId, text: string) => found.set(hostId, `${found.get(hostId) ?? ""}\n${text}`);
    const silence = massSilenceRan(tables) ? "mass silence" : "silence";
    for (const hostId of findSuspected(tables, liveness.whySuspected)) add(hostId, silence);
    for (const [hostId, { message }] of refusedAgents.all()) add(hostId, message);
    if (standsStill !== "") for (const { hostId } of tables.hosts.entries()) add(hostId, standsStill);
    return found;
  }

  #tellSeenOtherwise(seen: ReadonlyMap<HostId, string>): void {
    const before = this.#seen;
    this.#seen = seen;
    const all = [...new Set([...seen.keys(), ...before.keys()])];
    const changed = all.filter((hostId) => seen.get(hostId) !== before.get(hostId));
    if (changed.length > 0) this.on.seenOtherwise(changed);
  }

  async #giveUp(hostId: HostId, nowMs: number): Promise<void> {
    const { liveness, tablet } = this.context;
    const time = { limits: removalLimits(this.context), nowMs, listenedMs: liveness.totalListenedMs };
    const given = await tablet.transact(
      (tx) => takeSteps(tx, hostId, time) + giveUpOnHost(tx, hostId, time.limits, time),
    );
    if (given > 0)
      this.context.log.warn({ hostId, devices: given }, "detach confirmation timed out, devices marked DETACHED");
    const lost = await tablet.transact((tx) => {
      const event = noteLostDisks(tx, hostId);
      if (event !== undefined) noteWithoutChange(tx, event, eventLimits(this.context.config), nowMs);
      return event;
    }, IS_NOTED);
    if (lost !== undefined) this.context.log.error({ hostId, diskIds: lost.diskIds }, "disks lost with a dead host");
  }

  /** Logs a mass silence once when it begins and once when it ends. */
  #alert(massSilent: readonly HostId[]): void {
    if (massSilent.length > 0 && this.#massSilentBefore === 0) {
      const text =
        "mass silence started: over half of the hosts are silent, none is marked UNAVAILABLE or gets new disks; " +
        "check the network and this process, declare dead hosts with SetHostState";
      this.context.log.error({ alert: "mass_silence", hosts: massSilent.length, first: massSilent[0] }, text);
    } else if (massSilent.length === 0 && this.#massSilentBefore > 0) {
      this.context.log.info({ alertEnded: "mass_silence" }, "mass silence ended");
    }
    this.#massSilentBefore = massSilent.length;
  }
}
