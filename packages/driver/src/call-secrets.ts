import { Redactor } from "@diskmesh/domain";

/** Number of ended calls whose secrets are still redacted, because a driver may print them late. */
const MAX_ENDED_CALLS = 100;
const MAX_ENDED_LENGTH = 65_536;

/** Secret arguments of calls under way and of the latest ended calls. */
export class CallSecrets {
  readonly #byCall = new Map<number, { readonly values: readonly unknown[]; readonly length: number }>();
  /** Ids of ended calls, oldest first. */
  readonly #ended = new Set<number>();
  #endedLength = 0;
  #redactor: Redactor | undefined;

  begin(callId: number, values: readonly unknown[]): void {
    if (values.length === 0) return;
    this.#byCall.set(callId, { values, length: JSON.stringify(values).length });
    this.#redactor = undefined;
  }

  end(callId: number): void {
    const secrets = this.#byCall.get(callId);
    if (secrets === undefined) return;
    this.#ended.add(callId);
    this.#endedLength += secrets.length;
    for (const oldest of this.#ended) {
      if (this.#ended.size <= MAX_ENDED_CALLS && this.#endedLength <= MAX_ENDED_LENGTH) break;
      this.#endedLength -= this.#byCall.get(oldest)?.length ?? 0;
      this.#ended.delete(oldest);
      this.#byCall.delete(oldest);
      this.#redactor = undefined;
    }
  }

  /** Redactor of these arguments. Built on demand, because most calls print nothing. */
  get redactor(): Redactor {
    this.#redactor ??= new Redactor([...this.#byCall.values()].map(({ values }) => values));
    return this.#redactor;
  }
}
