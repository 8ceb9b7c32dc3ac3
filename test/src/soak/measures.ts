import { DomainError } from "@diskmesh/domain";

export interface Figures {
  readonly name: string;
  readonly done: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

/**
 * Kind of an error for the caller: it may repeat the call, as the reason's documentation says, or the call failed. The
 * caller repeats the call in both cases; a call that never succeeds is a violation.
 */
export type Ending = "to be repeated" | "failed";

export interface ErrorCount {
  readonly name: string;
  readonly kind: string;
  readonly ending: Ending;
  readonly count: number;
  /** First occurrence. */
  readonly example: string;
}

/** Durations of successful calls, and errors of failed ones, by name. */
export class Measures {
  readonly #tookMs = new Map<string, number[]>();
  readonly #errors = new Map<string, ErrorCount>();

  took(name: string, ms: number): void {
    const all = this.#tookMs.get(name);
    if (all === undefined) this.#tookMs.set(name, [ms]);
    else all.push(ms);
  }

  failed(name: string, kind: string, example: string, ending: Ending = "failed"): void {
    const key = `${name} ${kind} ${ending}`;
    const known = this.#errors.get(key);
    const counted = known ? { ...known, count: known.count + 1 } : { name, kind, ending, count: 1, example };
    this.#errors.set(key, counted);
  }

  async time<T>(name: string, work: () => Promise<T>, endingOf = endingOfCall): Promise<T> {
    const startedAtMs = performance.now();
    try {
      const result = await work();
      this.took(name, performance.now() - startedAtMs);
      return result;
    } catch (error) {
      this.failed(name, kindOf(error), error instanceof Error ? error.message : String(error), endingOf(error));
      throw error;
    }
  }

  get total(): number {
    return [...this.#tookMs.values()].reduce((sum, all) => sum + all.length, 0);
  }

  get figures(): Figures[] {
    return [...this.#tookMs].map(([name, all]) => figuresOf(name, all)).sort(byName);
  }

  get errors(): ErrorCount[] {
    return [...this.#errors.values()].sort((a, b) => byName(a, b) || b.count - a.count);
  }
}

export function figuresOf(name: string, tookMs: readonly number[]): Figures {
  const sorted = [...tookMs].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0;
  return { name, done: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99), longestMs: sorted.at(-1) ?? 0 };
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function endingOfCall(error: unknown): Ending {
  return error instanceof DomainError && error.retryable ? "to be repeated" : "failed";
}

/** Returns the reason of a domain error, the code of a system error, or the name of another error. */
function kindOf(error: unknown): string {
  if (error instanceof DomainError) return error.reason;
  if (error instanceof Error) return (error as { readonly code?: string }).code ?? error.name;
  return typeof error;
}

/** Returns the clients with every call measured, under the names of client and method. */
export function measuredClients<Clients extends object>(clients: Clients, measures: Measures): Clients {
  const each = Object.entries(clients).map(([name, client]) => [name, measured(client, name, measures)]);
  return Object.fromEntries(each);
}

/** Returns the client with every call measured, under the name of its method. */
export function measured<Client extends object>(client: Client, service: string, measures: Measures): Client {
  return new Proxy(client, {
    get(target, property, receiver) {
      const method: unknown = Reflect.get(target, property, receiver);
      if (typeof method !== "function" || typeof property !== "string") return method;
      return (...args: unknown[]) => {
        const result: unknown = method.apply(target, args);
        // Streams are not measured, because they may last for any time.
        if (!(result instanceof Promise)) return result;
        return measures.time(`${service}.${property[0]?.toUpperCase()}${property.slice(1)}`, () => result);
      };
    },
  });
}
