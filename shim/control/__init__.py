"""What runs beside the user: configuration, index, life cycle, scheduler, controller, backends."""
