/** The service worker: it leads from a notification to the page, and neither caches nor answers a request. */

interface NotificationClick extends Event {
  notification: Notification;
  waitUntil(done: Promise<unknown>): void;
}

interface PageClient {
  focus(): Promise<unknown>;
  postMessage(message: unknown): void;
}

const { clients } = globalThis as unknown as {
  clients: { matchAll(options: { type: "window"; includeUncontrolled: true }): Promise<PageClient[]>; openWindow(url: string): Promise<unknown> };
};

addEventListener("notificationclick", (event) => {
  const { notification, waitUntil } = event as NotificationClick;
  notification.close();
  const hash = String(notification.data);
  const open = async (): Promise<void> => {
    // The worker controls no page.
    const [page] = await clients.matchAll({ type: "window", includeUncontrolled: true });
    if (!page) return void (await clients.openWindow(`/${hash}`));
    // A browser may refuse it; the page still leads there.
    await page.focus().catch(() => undefined);
    page.postMessage({ open: hash });
  };
  waitUntil.call(event, open());
});
