import { endSession } from "../../logins/ended-sessions.js";
import { NO_SESSION } from "../../logins/page-sessions.js";
import { bodyObject } from "../body.js";
import { DATA_HEADERS, data } from "../page-answer.js";
import type { Route } from "../route.js";

/** Routes of the page's login form. */
export const pageSessionRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/page/login",
    operation: undefined,
    isOwn: true,
    isOpen: true,
    serve: async ({ request, logIn }) => {
      const fields = bodyObject(request);
      const cookie = await logIn(fields.text("name"), fields.text("password"));
      return { status: 204, headers: { ...DATA_HEADERS, "set-cookie": cookie } };
    },
  },
  {
    method: "POST",
    path: "/page/logout",
    operation: "seePage",
    serve: async ({ context, login }) => {
      const { name, session } = login;
      if (session !== undefined)
        await context.tablet.transact((tx) => endSession(tx, name, session, context.clock.nowMs()));
      return { status: 204, headers: { ...DATA_HEADERS, "set-cookie": NO_SESSION } };
    },
  },
  {
    method: "GET",
    path: "/page/session",
    operation: "seePage",
    isOwn: "without a leader",
    serve: async ({ login }) => data({ name: login.name }),
  },
];
