import { request } from "node:https";
import type { RowChange } from "@diskmesh/page/rows";

/** The page's rows as browsers receive them. */
export interface PageFeed {
  /** The latest content of each row, by "KIND NAME". */
  readonly rows: ReadonlyMap<string, Record<string, unknown> | null>;
  readonly status: number;
  readonly isEnded: () => boolean;
  close(): void;
}

export interface PageFeedOptions {
  readonly port: number;
  readonly ca: string | Buffer;
  /** "name:password". */
  readonly login: string;
}

/** Opens the page's event stream as a browser does. */
export function openPageFeed({ port, ca, login }: PageFeedOptions): Promise<PageFeed> {
  const authorization = `Basic ${Buffer.from(login).toString("base64")}`;
  const headers = { authorization, accept: "text/event-stream" };
  const rows = new Map<string, Record<string, unknown> | null>();
  const note = (message: string): void => {
    const [, event, data = ""] = /event: (\w+)\ndata: (.*)$/s.exec(message) ?? [];
    if (event === "rows")
      for (const [kind, name, row] of JSON.parse(data) as RowChange[]) rows.set(`${kind} ${name}`, row && { ...row });
  };
  return new Promise((resolve, reject) => {
    const place = { host: "127.0.0.1", port, path: "/page/feed", headers, ca, agent: false as const };
    const sending = request(place, (response) => {
      let isEnded = false;
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          note(text.slice(0, end));
          text = text.slice(end + 2);
        }
      });
      response.on("close", () => {
        isEnded = true;
      });
      response.on("error", () => {});
      resolve({
        rows,
        status: response.statusCode ?? 0,
        isEnded: () => isEnded,
        close: () => sending.destroy(),
      });
    });
    sending.on("error", reject).end();
  });
}
