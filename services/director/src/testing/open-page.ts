import { setTimeout as delay } from "node:timers/promises";
import type { OverviewAnswer } from "@diskmesh/page/rows";
import type { HttpClient } from "./http-client.js";

const ASK_INTERVAL_MS = 50;

/** Asks a director for the page's rows as an open browser does, also while no director answers. */
export class OpenPage {
  /** The latest content of each row, by "KIND NAME". */
  readonly rows = new Map<string, Record<string, unknown> | null>();
  readonly #closed = new AbortController();

  constructor(private readonly http: Pick<HttpClient, "json">) {
    void this.#run();
  }

  close(): void {
    this.#closed.abort();
  }

  async #run(): Promise<void> {
    let since = "";
    while (!this.#closed.signal.aborted) {
      const answer = await this.http.json(`/page/overview?${new URLSearchParams({ since })}`).catch(() => undefined);
      if (answer !== undefined) since = this.#take(answer as OverviewAnswer);
      await delay(ASK_INTERVAL_MS);
    }
  }

  #take({ since, isWhole, rows }: OverviewAnswer): string {
    if (isWhole) this.rows.clear();
    for (const [kind, name, row] of rows) this.rows.set(`${kind} ${name}`, row && { ...row });
    return since;
  }
}
