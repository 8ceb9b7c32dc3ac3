import type { World } from "./world.js";

/** What must be durable from the moment that somebody was told so, until something else is asked for. */
interface Fact {
  readonly text: string;
  readonly holds: () => boolean;
}

/** What was acknowledged at one moment. */
export type AcknowledgedCopy = ReadonlyMap<string, readonly Fact[]>;

/** Requests about one host or one disk, and what was acknowledged of it. */
class Scope {
  /** How many requests were made. */
  made = 0;
  /** Requests of which a copy may still take effect. */
  active = 0;
  facts: readonly Fact[] = [];
}

/** One request, until no copy of it can take effect any more. */
export interface Operation {
  /** It was acknowledged: these facts hold, if nothing else was asked for meanwhile. */
  acknowledge(facts: readonly Fact[]): void;
  /** No copy of it can take effect any more. */
  gone(): void;
}

/** A model of all results that clients were told: none of them may be lost. */
export class Acknowledged {
  readonly #scopes = new Map<string, Scope>();

  constructor(private readonly world: World) {}

  begin(names: readonly string[]): Operation {
    const scopes = names.map((name) => this.#scope(name));
    const alone = scopes.every((scope) => scope.active === 0);
    for (const scope of scopes) {
      scope.made += 1;
      scope.active += 1;
      scope.facts = [];
    }
    const made = scopes.map((scope) => scope.made);
    return {
      acknowledge: (facts) => {
        const [scope] = scopes;
        if (scope === undefined || !alone || scopes.some((each, index) => each.made !== made[index])) return;
        scope.facts = facts;
        this.check();
      },
      gone: () => {
        for (const scope of scopes) scope.active -= 1;
      },
    };
  }

  copy(): AcknowledgedCopy {
    return new Map([...this.#scopes].map(([name, scope]) => [name, scope.facts]));
  }

  /**
   * What is known of then, and what is on its way now may still change it. Answers that are on their way tell of what is
   * gone.
   */
  rewind(then: AcknowledgedCopy): void {
    for (const [name, scope] of this.#scopes) {
      scope.made += 1;
      scope.facts = scope.active > 0 ? [] : (then.get(name) ?? []);
    }
  }

  check(): void {
    for (const scope of this.#scopes.values())
      for (const fact of scope.facts)
        if (!fact.holds()) this.world.violation(`an acknowledged change was lost: ${fact.text}`);
  }

  #scope(name: string): Scope {
    let scope = this.#scopes.get(name);
    if (scope === undefined) {
      scope = new Scope();
      this.#scopes.set(name, scope);
    }
    return scope;
  }
}
