import type { AcknowledgedCopy, Fact, Operation, World } from "./parts.js";

/** Requests about one host or one disk, and their acknowledged facts. */
class Scope {
  /** Number of requests made. */
  made = 0;
  /** Number of requests of which a copy may still take effect. */
  active = 0;
  facts: readonly Fact[] = [];
}

/** Model of all results that clients received; none of them may be lost. */
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
   * Returns to the acknowledgements of `then`, because the registry was rewound to that moment. Answers that are still
   * in transit are ignored, but requests in transit may still take effect on the restored state.
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
