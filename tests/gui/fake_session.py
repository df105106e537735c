"""A desktop session for the window tests: a bus of its own with a tray, a notification server and the part of logind that keeps a computer
awake. They imitate only what a program talks to: what a real desktop draws of it is not shown here.

Prints one line of JSON when it is ready ({"bus": address}), then answers each line on stdin with one line of JSON:
  tray            -> [{"label": …, "enabled": …}], or null while no program has registered an icon
  click LABEL     -> true when the entry was there and could be clicked
  notices         -> [{"title": …, "body": …}]
  quit            ends it, with its bus
  awake           -> {"what": …, "held": …} of the last inhibition, or null
Ends when stdin ends.
"""
import json
import os
import subprocess
import sys
import threading

import dbus
import dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

MENU = "com.canonical.dbusmenu"
ITEM = "org.kde.StatusNotifierItem"


class Tray(dbus.service.Object):
    items = []

    @dbus.service.method("org.kde.StatusNotifierWatcher", in_signature="s", sender_keyword="sender")
    def RegisterStatusNotifierItem(self, service, sender=None):
        Tray.items.append((sender, service if service.startswith("/") else "/StatusNotifierItem"))

    @dbus.service.method("org.kde.StatusNotifierWatcher", in_signature="s")
    def RegisterStatusNotifierHost(self, service):
        pass

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="ss", out_signature="v")
    def Get(self, interface, name):
        return self.GetAll(interface)[name]

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="s", out_signature="a{sv}")
    def GetAll(self, interface):
        return {"IsStatusNotifierHostRegistered": True, "ProtocolVersion": dbus.Int32(0), "RegisteredStatusNotifierItems": dbus.Array([], signature="s")}


class Notices(dbus.service.Object):
    shown = []

    @dbus.service.method("org.freedesktop.Notifications", in_signature="susssasa{sv}i", out_signature="u")
    def Notify(self, app, replaces, icon, title, body, actions, hints, timeout):
        Notices.shown.append({"title": str(title), "body": str(body)})
        return dbus.UInt32(len(Notices.shown))

    @dbus.service.method("org.freedesktop.Notifications", out_signature="as")
    def GetCapabilities(self):
        return ["body"]

    @dbus.service.method("org.freedesktop.Notifications", out_signature="ssss")
    def GetServerInformation(self):
        return ("fake", "tests", "1", "1.2")


class Login(dbus.service.Object):
    last = None

    @dbus.service.method("org.freedesktop.login1.Manager", in_signature="ssss", out_signature="h")
    def Inhibit(self, what, who, why, mode):
        ours, theirs = os.pipe()
        Login.last = {"what": str(what), "who": str(who), "mode": str(mode), "held": True}
        holder = Login.last
        # The lock is held for as long as anyone has the other end.
        threading.Thread(target=lambda: (os.read(ours, 1), holder.update(held=False)), daemon=True).start()
        given = dbus.types.UnixFd(theirs)
        os.close(theirs)
        return given


def tray_menu(bus):
    if not Tray.items:
        return None, []
    name, path = Tray.items[-1]
    menu = dbus.Interface(bus.get_object(name, path), dbus.PROPERTIES_IFACE).Get(ITEM, "Menu")
    door = dbus.Interface(bus.get_object(name, menu), MENU)
    _, (_, _, children) = door.GetLayout(0, -1, dbus.Array([], signature="s"))
    return door, [(int(id), facts) for id, facts, _ in children if facts.get("type") != "separator" and "label" in facts]


def answer(bus, line):
    word, _, rest = line.strip().partition(" ")
    if word == "notices":
        return Notices.shown
    if word == "awake":
        return Login.last
    door, entries = tray_menu(bus)
    if word == "tray":
        # An underscore marks a key; two of them are one.
        return door and [{"label": plain(facts), "enabled": bool(facts.get("enabled", True))} for _, facts in entries]
    for id, facts in entries:
        if plain(facts) == rest and facts.get("enabled", True):
            door.Event(id, "clicked", dbus.Int32(0, variant_level=1), dbus.UInt32(0))
            return True
    return False


def plain(facts):
    return str(facts["label"]).replace("__", "\0").replace("_", "").replace("\0", "_")


def main():
    daemon = subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--print-address=1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = daemon.stdout.readline().strip()
        DBusGMainLoop(set_as_default=True)
        bus = dbus.bus.BusConnection(address)
        names = [dbus.service.BusName(name, bus) for name in ("org.kde.StatusNotifierWatcher", "org.freedesktop.Notifications", "org.freedesktop.login1")]
        objects = [Tray(bus, "/StatusNotifierWatcher"), Notices(bus, "/org/freedesktop/Notifications"), Login(bus, "/org/freedesktop/login1")]
        loop = GLib.MainLoop()

        def hear(stream, condition):
            line = stream.readline()
            if not line or line.strip() == "quit":
                loop.quit()
                return False
            try:
                said = answer(bus, line)
            except dbus.DBusException as error:
                said = {"error": str(error)}
            print(json.dumps(said), flush=True)
            return True

        GLib.io_add_watch(sys.stdin, GLib.IO_IN | GLib.IO_HUP, hear)
        print(json.dumps({"bus": address}), flush=True)
        loop.run()
        del names, objects
    finally:
        daemon.terminate()


main()
