import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A received span. */
export interface ReceivedSpan {
  /** Name of the service that created the span. */
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Attributes of the process that created the span. */
  readonly resource: Readonly<Record<string, unknown>>;
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number };
}

interface TracesBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly name: string;
        readonly traceId: string;
        readonly status: { readonly code?: number };
        readonly attributes: readonly Attribute[];
      }[];
    }[];
  }[];
}

const STATUS_ERROR = 2;

const valuesOf = (attributes: readonly Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]));

/** Receives traces and metrics that processes export over OTLP. */
export class TraceCollector {
  received = "";
  readonly spans: ReceivedSpan[] = [];

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<TraceCollector> {
    const server = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      request.on("end", () => {
        collector.received += body;
        if (request.url === "/v1/traces") collector.#take(JSON.parse(body));
        response.end("{}");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const collector = new TraceCollector(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return collector;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #take({ resourceSpans }: TracesBody): void {
    for (const { resource, scopeSpans } of resourceSpans) {
      const process = valuesOf(resource.attributes);
      const service = String(process["service.name"]);
      for (const { spans } of scopeSpans)
        for (const { name, traceId, status, attributes } of spans)
          this.spans.push({
            service,
            name,
            traceId,
            failed: status.code === STATUS_ERROR,
            attributes: valuesOf(attributes),
            resource: process,
          });
    }
  }
}
