import type { HttpConfig } from "../config/http-config.js";
import type { Login } from "../logins/login.js";
import { type Answer, json, text } from "./answer.js";
import type { Context } from "./context.js";

/** The version of BOSH's director with the same routes. Clients check the version before they use some routes. */
const BOSH_VERSION = "283.1.6 (00000000)";

/** Returns the response to a client's first request, with or without a login. */
export function infoAnswer({ config, tablet }: Context, login: Login | undefined, http: HttpConfig): Answer {
  const { tokens } = http;
  // Clients use one kind of login. Users beside a UAA log in at the page, and by Basic requests of other clients.
  const uaa = tokens && { type: "uaa", options: { url: tokens.url, urls: [tokens.url] } };
  return json({
    name: config.name,
    uuid: tablet.id,
    version: BOSH_VERSION,
    user: login?.name ?? null,
    cpi: "diskmesh",
    stemcell_os: "-",
    stemcell_version: "-",
    user_authentication: uaa ?? { type: "basic", options: {} },
    features: {
      dynamic_disks: { status: config.dynamicDisks.enabled },
      local_dns: { status: false, extras: { domain_name: "bosh" } },
      snapshots: { status: true },
      config_server: { status: false, extras: { urls: [] } },
    },
  });
}

/** Returns 200, or 503 with the missing prerequisites. */
export function healthAnswer(missing: string): Answer {
  return missing === "" ? text("ok\n") : text(`${missing}\n`, 503);
}
