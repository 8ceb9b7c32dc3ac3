import { AsyncLocalStorage } from "node:async_hooks";
import { NotFoundError, servedElsewhere, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  type TextMapPropagator,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { expect } from "chai";
import { Bench, collect, eventually } from "../testing/note-bench.js";

interface SeenSpan {
  readonly name: string;
  readonly kind: SpanKind | undefined;
  readonly id: string;
  readonly traceId: string;
  readonly parentId: string | undefined;
  readonly attributes: Record<string, unknown>;
  ended: number;
  failed: boolean;
}

/** Minimal SDK for the API: spans go into a list, and the context follows async calls. */
class SmallSdk implements ContextManager, TextMapPropagator {
  readonly spans: SeenSpan[] = [];
  readonly #storage = new AsyncLocalStorage<Context>();
  #nextId = 0;

  start(): void {
    context.setGlobalContextManager(this);
    propagation.setGlobalPropagator(this);
    const tracer = { startSpan: this.#startSpan } as unknown as Tracer;
    trace.setGlobalTracerProvider({ getTracer: () => tracer });
  }
  stop(): void {
    trace.disable();
    propagation.disable();
    context.disable();
  }

  #startSpan = (name: string, options: SpanOptions = {}, parent: Context = this.active()): Span => {
    const parentSpan = trace.getSpanContext(parent);
    this.#nextId += 1;
    const spanContext = {
      spanId: this.#nextId.toString(16).padStart(16, "0"),
      traceId: parentSpan?.traceId ?? this.#nextId.toString(16).padStart(32, "0"),
      traceFlags: 1,
    };
    const seen: SeenSpan = {
      name,
      kind: options.kind,
      id: spanContext.spanId,
      traceId: spanContext.traceId,
      parentId: parentSpan?.spanId,
      attributes: { ...options.attributes },
      ended: 0,
      failed: false,
    };
    this.spans.push(seen);
    return {
      spanContext: () => spanContext,
      isRecording: () => seen.ended === 0,
      setAttribute: (key: string, value: unknown) => {
        seen.attributes[key] = value;
      },
      setAttributes: (attributes: object) => {
        Object.assign(seen.attributes, attributes);
      },
      setStatus: () => {
        seen.failed = true;
      },
      end: () => {
        seen.ended += 1;
      },
    } as unknown as Span;
  };

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }
  with<Args extends unknown[], Fn extends (...args: Args) => ReturnType<Fn>>(
    active: Context,
    fn: Fn,
    _self?: unknown,
    ...args: Args
  ): ReturnType<Fn> {
    return this.#storage.run(active, () => fn(...args));
  }
  bind<Target>(_active: Context, target: Target): Target {
    return target;
  }
  enable(): this {
    return this;
  }
  disable(): this {
    return this;
  }

  inject(from: Context, carrier: unknown, setter: { set(carrier: unknown, key: string, value: string): void }): void {
    const span = trace.getSpanContext(from);
    if (span) setter.set(carrier, "traceparent", `00-${span.traceId}-${span.spanId}-01`);
  }
  extract(to: Context, carrier: unknown, getter: { get(carrier: unknown, key: string): unknown }): Context {
    const [, traceId, spanId] = String(getter.get(carrier, "traceparent") ?? "").split("-");
    return traceId && spanId ? trace.setSpanContext(to, { traceId, spanId, traceFlags: 1, isRemote: true }) : to;
  }
  fields(): string[] {
    return ["traceparent"];
  }
}

describe("tracing", () => {
  const bench = new Bench();
  const sdk = new SmallSdk();
  before(async () => {
    sdk.start();
    await bench.makeCertificates();
  });
  afterEach(async () => {
    await bench.closeAll();
    sdk.spans.length = 0;
  });
  after(() => {
    sdk.stop();
    bench.remove();
  });

  const active = () => trace.getActiveSpan()?.spanContext().spanId;

  it("makes a client and a server span of one trace, and runs the handler within the server span", async () => {
    const within: unknown[] = [];
    await bench.serve({
      get: async (request) => {
        within.push(active());
        return request;
      },
      async *list(request) {
        yield request;
        await new Promise((resolve) => setTimeout(resolve, 10));
        within.push(active());
      },
    });
    await bench.client().get({ text: "", count: 0 });
    await collect(bench.client().list({ text: "", count: 0 }));
    const [client, server, listClient, listServer] = sdk.spans;
    expect(client).to.include({ name: "test.v1.NoteService/Get", kind: SpanKind.CLIENT });
    expect(server).to.include({ name: "test.v1.NoteService/Get", kind: SpanKind.SERVER, traceId: client?.traceId });
    expect(server?.parentId).to.equal(client?.id);
    expect(listServer?.parentId).to.equal(listClient?.id);
    expect(within).to.deep.equal([server?.id, listServer?.id]);
    for (const span of sdk.spans) expect(span).to.include({ ended: 1, failed: false });
    const called = { "rpc.system.name": "grpc", "rpc.method": "test.v1.NoteService/Get", "rpc.status_code": "OK" };
    expect(server?.attributes).to.include(called).and.not.have.any.keys("rpc.service", "error.type");
    const at = { "server.address": "127.0.0.1", "server.port": bench.port };
    expect(client?.attributes).to.deep.equal({ ...called, ...at });
  });

  it("makes a call within a handler a child of the handler's span", async () => {
    await bench.serve({
      get: async (request) => (request.count === 0 ? request : bench.client().get({ text: "", count: 0 })),
    });
    await bench.client().get({ text: "", count: 1 });
    const [, outer, inner] = sdk.spans;
    expect(inner?.parentId).to.equal(outer?.id);
    expect(new Set(sdk.spans.map((span) => span.traceId)).size).to.equal(1);
  });

  it("marks both spans failed for a server failure, and neither when a standby names the leader", async () => {
    const errors = [new UnavailableError("its database is away"), servedElsewhere("it stands by", "127.0.0.1:1")];
    await bench.serve({
      get: async ({ count }) => {
        throw errors[count];
      },
    });
    await rejection(bench.client().get({ text: "", count: 0 }));
    expect(sdk.spans.map(({ failed }) => failed)).to.deep.equal([true, true]);
    // On a busy machine the deadline may pass before the client has connected.
    await eventually(async () => {
      sdk.spans.length = 0;
      await rejection(bench.client().get({ text: "", count: 1 }, { deadlineMs: 500 }));
      const servers = sdk.spans.filter(({ kind }) => kind === SpanKind.SERVER);
      expect(servers.map(({ failed }) => failed))
        .to.include(false)
        .and.not.include(true);
    });
  });

  it("names the request id and subject in the server's span", async () => {
    await bench.serve();
    await bench.client().get({ text: "", count: 0 }, { requestId: "story-7" });
    for (const { attributes } of sdk.spans) expect(attributes).to.include({ "diskmesh.request_id": "story-7" });
  });

  it("ends both spans once, with the status, however a call fails", async () => {
    await bench.serve({
      get: async () => {
        throw new NotFoundError("none");
      },
      // biome-ignore lint/correctness/useYield: it fails first
      async *list() {
        throw new NotFoundError("none");
      },
    });
    await rejection(bench.client().get({ text: "", count: 0 }));
    await rejection(collect(bench.client().list({ text: "", count: 0 })));
    await rejection(bench.client({ tls: bench.files("disk-agent-host-1") }).get({ text: "", count: 0 }));
    expect(sdk.spans).to.have.length(6);
    // A request that is wrong does not mark the server's span as failed.
    for (const span of sdk.spans) expect(span).to.include({ ended: 1, failed: span.kind === SpanKind.CLIENT });
    const codes = [...Array(4).fill("NOT_FOUND"), "PERMISSION_DENIED", "PERMISSION_DENIED"];
    expect(sdk.spans.map((span) => span.attributes["rpc.status_code"])).to.deep.equal(codes);
    for (const { kind, attributes } of sdk.spans)
      expect(attributes["error.type"]).to.equal(kind === SpanKind.CLIENT ? attributes["rpc.status_code"] : undefined);
  });

  it("ends the spans of a stream that its reader leaves, without marking them failed", async () => {
    await bench.serve();
    for await (const _note of bench.client().list({ text: "", count: 100 })) break;
    await eventually(async () => expect(sdk.spans.map(({ ended }) => ended)).to.deep.equal([1, 1]));
    for (const span of sdk.spans) expect(span).to.include({ failed: false });
  });
});
