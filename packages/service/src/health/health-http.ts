import { BriefHttp } from "./brief-http.js";
import type { Readiness, ReadinessReport } from "./readiness.js";

/**
 * Serves health checks over plain HTTP, for clients without gRPC. `/healthz` answers 200 while the process answers at
 * all. `/readyz` answers 200 when the process is ready, and otherwise 503 with the missing needs and the alerts. `/readyz?standbyok` also
 * answers 200 when the process is a standby that could take over. No other path exists.
 */
export class HealthHttp extends BriefHttp {
  constructor(readiness: Readiness) {
    super("health.listen", ({ method, url }, response) => {
      const isRead = method === "GET" || method === "HEAD";
      const { status, body } = isRead ? answerTo(url ?? "", readiness.report()) : NO_METHOD;
      response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
      response.end(method === "HEAD" ? undefined : `${JSON.stringify(body)}\n`);
    });
  }
}

const NO_METHOD = { status: 405, body: { error: "only GET and HEAD" } };

function answerTo(url: string, report: ReadinessReport): { status: number; body: object } {
  const [path, query] = url.split("?");
  switch (path) {
    case "/healthz":
      return { status: 200, body: { alive: true } };
    case "/readyz": {
      const isReady = report.ready || (query === "standbyok" && standsByHealthy(report));
      return { status: isReady ? 200 : 503, body: readinessBody(report) };
    }
    default:
      return { status: 404, body: { error: "ask for /healthz or /readyz" } };
  }
}

/** Returns whether the process stands by and lacks nothing but the lead. */
function standsByHealthy({ standsByFor, needs }: ReadinessReport): boolean {
  return standsByFor !== undefined && [...needs].every(([need, { met }]) => need === "leader" || met !== false);
}

function readinessBody({ ready, standsByFor, needs, alerts }: ReadinessReport): object {
  const states = [...needs].map(([need, { met, why }]) => [
    need,
    { status: met === undefined ? "UNKNOWN" : met ? "SERVING" : "NOT_SERVING", ...(why ? { why } : {}) },
  ]);
  return {
    ready,
    ...(standsByFor === undefined ? {} : { standsByFor }),
    needs: Object.fromEntries(states),
    ...(alerts.size > 0 && { alerts: Object.fromEntries([...alerts].map(([name, { why }]) => [name, why])) }),
  };
}
